"""Two topics joined, hours apart in event time, on a real broker: Spark's own Kafka source beside ``flip27_kafka``.

``python -m flip27_stream.demo.join`` writes both topics, joins them with either source on both sides, and draws event
time and state over the batches. It needs pyspark and delta-spark, and Java 17 or later.
"""
