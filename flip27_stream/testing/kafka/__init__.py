"""Kafka brokers and clusters, their topics and records, and their listeners."""
