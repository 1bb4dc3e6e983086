"""Options of the Kinesis source."""
