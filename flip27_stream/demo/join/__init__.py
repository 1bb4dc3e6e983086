"""Two topics joined, hours apart in event time: Spark's built-in Kafka source beside ``flip27_kafka``.

They are joined with either source on both sides, and event time and state are drawn over the batches.
"""
