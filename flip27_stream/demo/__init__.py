"""One job, twice, on a real broker: Spark's built-in Kafka source beside ``flip27_kafka``.

``python -m flip27_stream.demo`` writes a skewed backlog, counts it in windows with either source and shows
what is missing. It needs pyspark and delta-spark, and Java 17 or later.
"""
