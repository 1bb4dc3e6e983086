"""One job, twice: Spark's built-in Kafka source beside ``flip27_kafka``, on a backlog with one partition hours behind.

It is counted in windows with either source, and what is missing is shown.
"""
