"""Benchmarks of what one driver does: plans, offsets, groups, reports, the split-watermark table."""
