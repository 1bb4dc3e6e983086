"""Reads damaged fetch responses with this project's decoder and with kafka-python, and compares.

The checksums of the damaged responses are repaired.
"""
