"""The client of schema registries that speak the API of Confluent's."""
