"""The rows that a query gets: their columns, and the decoders of values."""
