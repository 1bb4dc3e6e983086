"""The Delta table of split watermarks: its rows, its writer and its readers."""
