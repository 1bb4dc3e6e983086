"""An external system whose server a conformance test pauses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flip27_stream.api import ReadLimits
from flip27_stream.testing import ExternalSystem
from flip27_stream.testing.server import Server


class PausedServerSystem(ExternalSystem):
    """A system that fails while its server is paused: connections stay open, and the server does not answer."""

    def __init__(self, paused: Server[Any]) -> None:
        self._paused = paused
        self._is_paused = False

    def fail(self) -> None:
        self._paused.pause()
        self._is_paused = True

    def recover(self) -> None:
        self._paused.resume()
        self._is_paused = False

    def close(self) -> None:
        if self._is_paused:
            self.recover()


def limit_options(limits: ReadLimits) -> Mapping[str, str] | None:
    """Returns the options of Kinesis and Pulsar for a limit of rows or bytes; ``None`` for another limit."""
    if limits.max_rows is not None:
        return {"maxRecordsPerTrigger": str(limits.max_rows)}
    return None if limits.max_bytes is None else {"maxBytesPerTrigger": str(limits.max_bytes)}
