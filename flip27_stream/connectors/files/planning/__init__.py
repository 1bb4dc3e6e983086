"""The enumerator of files: the order of files, the end positions of each batch, and positions by event time."""
