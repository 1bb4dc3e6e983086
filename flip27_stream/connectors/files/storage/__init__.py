"""File systems, listings of files, and errors of stores."""
