"""Benchmarks that compare this project's speed with that of Spark's own sources in the same run.

``python -m benchmarks`` runs them.
"""
