"""The client of the Pulsar source: the package pulsar-client, whose errors become errors of this project."""
