"""Java's settings of encryption and authentication, checked and combined in one value."""
