"""The rows that a query gets: their layout, and values decoded into columns."""
