"""The way from tasks back to the coordinator, and on into the split-watermark table."""
