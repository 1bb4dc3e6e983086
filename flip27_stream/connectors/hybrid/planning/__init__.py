"""The enumerator: which source is read, where each ends, and where the next one begins."""
