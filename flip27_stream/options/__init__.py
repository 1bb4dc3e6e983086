"""Options: reading single values, and what all option sets share. Knows no connector and no Spark."""
