"""The files of a split-watermark table: checks of their place, access to them, and what killed processes leave."""
