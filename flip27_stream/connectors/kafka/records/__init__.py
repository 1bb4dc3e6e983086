"""The wire format of records (magic 0, 1 and 2), decoded into columns."""
