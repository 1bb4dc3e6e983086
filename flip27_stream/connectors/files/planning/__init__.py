"""The enumerator of files: which file is read next, up to which position, and positions by event time."""
