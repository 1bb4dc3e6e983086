"""The conformance suite over hybrid sources. Logs come after a history without rows, or after a history that has all
rows that were there when the source was made.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pyarrow as pa

from flip27_stream.api import ReadLimits
from flip27_stream.connectors.hybrid import HybridSource
from flip27_stream.testing import ExternalSystem, SourceConformanceSuite
from tests.connectors.hybrid.support.kit import history
from tests.reader.support.memory_logs import MemoryLogs, MemoryLogSource


class AfterNothing(ExternalSystem):
    """Logs after a history without rows. Every check is a check of the source after the switch."""

    def __init__(self) -> None:
        self._logs = MemoryLogs()
        self.hide, self.restore = self._logs.hide, self._logs.restore  # type: ignore[method-assign]
        self.fail, self.recover = self._logs.fail, self._logs.recover  # type: ignore[method-assign]

    def _before(self, logs: MemoryLogSource, limits: ReadLimits | None = None) -> HybridSource:
        nothing = NoRows(logs.schema)
        builder = HybridSource.builder(history("nothing", {}), converter=nothing, limits=limits)
        return builder.add_source(logs).build()

    @property
    def source(self) -> HybridSource:
        return self._before(self._logs.source)

    @property
    def bounded(self) -> HybridSource:
        return self._before(self._logs.bounded)

    def limited(self, limits: ReadLimits) -> HybridSource | None:
        """Returns a source for a limit of rows only. Limits of bytes and files
        are those of each source of the chain.
        """
        return self._before(self._logs.source, limits) if limits.max_rows is not None else None

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        return self._logs.write(split, count)

    def write_at(self, split: int, times: Sequence[int | None]) -> Sequence[Hashable]:
        return self._logs.write_at(split, times)

    def identify(self, row: dict[str, Any]) -> Hashable:
        return self._logs.identify(row)

    def close(self) -> None:
        self._logs.close()


class NoRows:
    """A converter that the suite can pickle."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, records: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=self._schema)


class AfterAll(ExternalSystem):
    """A history and live logs. Rows that are written before the first read are history; later rows are live, in other
    splits.

    No split can be hidden: while a part of the history is missing, the live splits wait for it.
    """

    LIVE = 10

    def __init__(self) -> None:
        self._old, self._new = MemoryLogs(), MemoryLogs()
        self._is_read = False

    def _before(self, live: MemoryLogSource, limits: ReadLimits | None = None) -> HybridSource:
        self._is_read = True
        return HybridSource.builder(self._old.bounded, limits=limits).add_source(live).build()

    @property
    def source(self) -> HybridSource:
        return self._before(self._new.source)

    @property
    def bounded(self) -> HybridSource:
        return self._before(self._new.bounded)

    def limited(self, limits: ReadLimits) -> HybridSource | None:
        return self._before(self._new.source, limits) if limits.max_rows is not None else None

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        return self._new.write(split + self.LIVE, count) if self._is_read else self._old.write(split, count)

    def write_at(self, split: int, times: Sequence[int | None]) -> Sequence[Hashable]:
        return self._old.write_at(split, times)

    def fail(self) -> None:
        self._old.fail()
        self._new.fail()

    def recover(self) -> None:
        self._old.recover()
        self._new.recover()

    def identify(self, row: dict[str, Any]) -> Hashable:
        return self._old.identify(row)

    def close(self) -> None:
        self._old.close()
        self._new.close()


class TestAfterAll(SourceConformanceSuite):
    """The suite (SX-01 to SX-08, CO-11, CO-25) over the switch: restarts and replays before, at and after it."""

    splits_finish = True

    def create_system(self) -> ExternalSystem:
        return AfterAll()


class TestAfterNothing(SourceConformanceSuite):
    """The suite (SX-01 to SX-08, CO-11, CO-25) over the logs after the switch."""

    def create_system(self) -> ExternalSystem:
        return AfterNothing()
