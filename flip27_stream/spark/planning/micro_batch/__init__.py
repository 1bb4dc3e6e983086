"""The plan of one micro-batch: the splits that it reads, their end positions, and the tasks."""
