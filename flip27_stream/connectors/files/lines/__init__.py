"""Formats with one record in each line: CSV, JSON and text."""
