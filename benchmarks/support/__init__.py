"""What the benchmarks share: what they read, what they run on, their marks and their command line."""
