"""The options of the Kafka source and their parsers."""
