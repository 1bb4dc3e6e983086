"""A fast set of tests that ``make compat`` runs on every supported pair of Spark and Python."""
