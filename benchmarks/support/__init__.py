"""Modules that the benchmarks share: topics, servers, results with their marks, and the command line."""
