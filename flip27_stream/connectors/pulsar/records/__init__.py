"""Rows of messages."""
