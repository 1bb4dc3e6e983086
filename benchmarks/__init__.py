"""Speed, measured beside Spark's own sources in the same run. ``python -m benchmarks`` runs what the README quotes."""
