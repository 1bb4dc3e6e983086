"""The options of the Pulsar source, with the names that other Spark connectors for Pulsar use."""
