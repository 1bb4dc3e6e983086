"""A Pulsar server and its jars."""

from __future__ import annotations

from flip27_stream.testing.pulsar.server import PulsarServer
from flip27_stream.testing.pulsar.server_jars import skip_reason

__all__ = ["PulsarServer", "skip_reason"]
