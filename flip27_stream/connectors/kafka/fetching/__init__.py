"""The reader of a task, which reads planned ranges of partitions, and the connections that it fetches over."""
