"""The Delta table of split watermarks: its rows, who writes it, and what is read of it."""
