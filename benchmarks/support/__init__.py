"""Modules that the benchmarks share: topics, servers, results with their targets, and the command line."""
