"""Fetches the Kinesis emulators: ``python -m flip27_stream.testing.kinesis``."""

from __future__ import annotations

from flip27_stream.testing.kinesis.node_packages import main

main()
