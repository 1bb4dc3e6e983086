"""Java's settings of encryption and authentication, checked and as one value; TLS, SASL and tokens lie beside it."""
