"""The offsets that the coordinator reads from Spark and writes for it."""
