"""Pictures of a split-watermark table."""
