"""Benchmarks of speed beside Spark's own sources in the same run. ``python -m benchmarks`` runs them."""
