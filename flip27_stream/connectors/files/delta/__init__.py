"""Delta tables: a snapshot first, then what commits add."""
