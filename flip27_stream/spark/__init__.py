"""The Spark adapter: runs sources inside Spark. No other package imports Spark."""
