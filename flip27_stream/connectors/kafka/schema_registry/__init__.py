"""The client of schema registries with the API of Confluent's Schema Registry."""
