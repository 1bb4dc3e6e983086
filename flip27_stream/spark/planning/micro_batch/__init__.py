"""The plan of one micro-batch: which splits it reads, each up to which position, and in which tasks."""
