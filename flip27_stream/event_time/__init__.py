"""The event time of records, which comes from a column, a JSON pointer or a function."""
