"""Reports of tasks to the coordinator, and the rows of the split-watermark table that are made from them."""
