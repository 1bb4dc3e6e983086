"""Decoders of the wire format of records (magic 0, 1 and 2) into columns."""
