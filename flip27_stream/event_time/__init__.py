"""Where a record's event time comes from: a column, a JSON pointer, or a function."""
