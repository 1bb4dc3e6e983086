"""The Kinesis emulators, and the packages with them, which npm fetches."""

from __future__ import annotations

from flip27_stream.testing.kinesis.server import EMULATORS, KinesisServer, skip_reason

__all__ = ["EMULATORS", "KinesisServer", "skip_reason"]
