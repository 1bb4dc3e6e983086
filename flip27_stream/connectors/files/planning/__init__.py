"""The enumerator of files: which file is read next, how far, and positions by event time."""
