"""How data files hold the rows of a Delta table: names of columns, deleted rows, values of partition columns."""
