"""The Kafka enumerator and its requests to the cluster: offset ranges, topic ids, committed offsets."""
