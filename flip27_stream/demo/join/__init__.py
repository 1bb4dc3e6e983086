"""The demo of a join of two topics, hours apart in event time, with Spark's Kafka source and with ``flip27_kafka``.

The picture shows event time and state over the batches.
"""
