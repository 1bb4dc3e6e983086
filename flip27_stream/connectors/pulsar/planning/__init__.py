"""The enumerator of the Pulsar source, and the ranges and event times that it finds in partitions."""
