"""Reads damaged fetch responses with repaired checksums with this project's decoder and with kafka-python, and
compares.
"""
