"""The formats of files: their units, their statistics, and the conversion of ranges of rows to columns."""
