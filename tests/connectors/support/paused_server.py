"""External systems whose server a conformance test pauses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from flip27_stream.api import ReadLimits, Source
from flip27_stream.testing import ExternalSystem
from flip27_stream.testing.server import Server

NOON = 1_700_000_000_000


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


class EndlessLogs(PausedServerSystem):
    """A stream of Kinesis or a topic of Pulsar: the source does not end, and has limits of rows and of bytes."""

    @abstractmethod
    def _source(self, **more: str) -> Source[Any, Any]:
        """Returns the source, with more options."""

    @property
    def source(self) -> Source[Any, Any]:
        return self._source()

    @property
    def bounded(self) -> None:
        return None

    def limited(self, limits: ReadLimits) -> Source[Any, Any] | None:
        options = _limit_options(limits)
        return None if options is None else self._source(**options)

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        return self.write_at(split, [NOON + 1000 * split + 10 * i for i in range(count)])


def _limit_options(limits: ReadLimits) -> Mapping[str, str] | None:
    """Returns the options of Kinesis and Pulsar for a limit of rows or bytes; ``None`` for another limit."""
    if limits.max_rows is not None:
        return {"maxRecordsPerTrigger": str(limits.max_rows)}
    return None if limits.max_bytes is None else {"maxBytesPerTrigger": str(limits.max_bytes)}
