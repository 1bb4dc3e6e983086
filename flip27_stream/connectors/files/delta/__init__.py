"""Delta tables: the log, a snapshot of the table, and the files that later commits add."""
