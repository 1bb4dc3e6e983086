"""The options of the Kafka source, and what they mean."""
