"""The conversion of records to rows."""
