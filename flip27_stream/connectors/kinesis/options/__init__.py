"""The options of the Kinesis source and their parsers."""
