"""The Kafka enumerator and what it asks the cluster for: offset ranges, topic ids, committed offsets."""
