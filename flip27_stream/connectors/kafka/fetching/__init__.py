"""The reader of a task, which reads planned ranges of partitions, and its connections."""
