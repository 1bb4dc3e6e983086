"""Encryption and authentication: TLS, SASL, and the key stores of Java."""
