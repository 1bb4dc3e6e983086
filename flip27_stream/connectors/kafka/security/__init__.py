"""Encryption and authentication of connections to Kafka: TLS, SASL, and the key stores of Java."""
