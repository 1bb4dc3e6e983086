"""File systems and listings."""
