"""Fetches the jars of the Pulsar server: ``python -m flip27_stream.testing.pulsar``."""

from __future__ import annotations

from flip27_stream.testing.pulsar.server_jars import main

main()
