"""The Kinesis source (format ``flip27_kinesis``), and the factory that makes it from options."""

from flip27_stream.connectors.kinesis.source import KinesisSource, KinesisSourceFactory

__all__ = ["KinesisSource", "KinesisSourceFactory"]
