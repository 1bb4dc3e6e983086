"""The Pulsar source (format ``flip27_pulsar``), and the factory that makes it from options."""

from flip27_stream.connectors.pulsar.source import PulsarSource, PulsarSourceFactory

__all__ = ["PulsarSource", "PulsarSourceFactory"]
