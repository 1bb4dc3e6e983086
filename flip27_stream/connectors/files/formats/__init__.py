"""The formats of files: their units, statistics, and how ranges of them become columns."""
