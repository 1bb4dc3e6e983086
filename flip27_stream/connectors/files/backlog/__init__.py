"""The backlog: files that are known and not assigned yet, and the memory of those that were taken."""
