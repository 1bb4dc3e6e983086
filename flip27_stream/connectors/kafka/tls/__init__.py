"""TLS: the trust stores and key stores of Java's client, and the errors of handshakes."""
