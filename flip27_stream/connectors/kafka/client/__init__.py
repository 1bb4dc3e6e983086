"""Requests to a Kafka cluster and the connections below them, for planning."""
