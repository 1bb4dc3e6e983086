"""Positions by event time, which are found in the log with small fetches."""
