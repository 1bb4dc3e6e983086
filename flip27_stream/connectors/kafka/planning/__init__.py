"""The enumerator of Kafka, and what it asks the cluster: ranges, positions by event time, committed offsets."""
