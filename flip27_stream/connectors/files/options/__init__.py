"""The options of the file source and their parsers."""
