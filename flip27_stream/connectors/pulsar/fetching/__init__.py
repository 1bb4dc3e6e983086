"""The reader of a task."""
