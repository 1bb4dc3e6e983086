"""Kinesis: the format ``flip27_kinesis``."""

from flip27_stream.connectors.kinesis.source import KinesisSource, KinesisSourceFactory

__all__ = ["KinesisSource", "KinesisSourceFactory"]
