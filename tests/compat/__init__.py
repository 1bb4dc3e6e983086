"""A fast set of tests on every supported pair of Spark and Python: ``make compat``."""
