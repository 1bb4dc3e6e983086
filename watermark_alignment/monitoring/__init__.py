"""Views of the split-watermark table for people and programs: status, plots, dashboard, listener."""
