"""The demo of a backlog with one partition hours behind: one query with Spark's Kafka source and with ``flip27_kafka``.

Its rows are counted in windows with either source, and missing rows are shown.
"""
