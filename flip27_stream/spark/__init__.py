"""Runs sources inside Spark: the only package that knows it."""
