"""The enumerator of the Kinesis source, and the positions that it finds in shards."""
