"""Split-level watermark alignment: the planner, its options, the table of split watermarks, and views of it."""
