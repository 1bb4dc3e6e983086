"""Pulsar: the format ``flip27_pulsar``."""

from flip27_stream.connectors.pulsar.source import PulsarSource, PulsarSourceFactory

__all__ = ["PulsarSource", "PulsarSourceFactory"]
