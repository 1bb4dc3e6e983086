"""Fetch responses with damage in them, their checksums repaired, read by this project and by kafka-python."""
