"""The layout of the data files of a Delta table: names of columns, deleted rows, values of partition columns."""
