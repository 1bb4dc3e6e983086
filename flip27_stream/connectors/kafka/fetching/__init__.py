"""Reads planned ranges of partitions in a task: fetch connections, responses, the reader."""
