"""The Kafka enumerator and what it asks the cluster for: offset ranges, positions by event time, committed offsets."""
