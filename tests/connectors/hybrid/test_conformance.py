"""The conformance suite over hybrid sources: logs behind a history that has nothing, and behind one that has all that
was there when the source was made."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pyarrow as pa

from flip27_stream.connectors.hybrid import HybridSource
from flip27_stream.testing import ExternalSystem, SourceConformanceSuite
from tests.connectors.hybrid.kit import history
from tests.reader.memory_logs import MemoryLogs


class AfterNothing(ExternalSystem):
    """Logs behind a history that has nothing; so every check is one of what comes after a switch."""

    def __init__(self) -> None:
        self._logs = MemoryLogs()

    @property
    def source(self) -> HybridSource:
        logs = self._logs.source
        return (
            HybridSource.builder(history("nothing", {}), converter=NoRows(logs.schema))
            .add_source(logs)
            .build()
        )

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        return self._logs.write(split, count)

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
    """What is written before anybody reads is history, what comes later is live, in splits of its own."""

    LIVE = 10

    def __init__(self) -> None:
        self._old, self._new = MemoryLogs(), MemoryLogs()
        self._is_read = False

    @property
    def source(self) -> HybridSource:
        self._is_read = True
        return HybridSource.builder(self._old.bounded).add_source(self._new.source).build()

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        return self._new.write(split + self.LIVE, count) if self._is_read else self._old.write(split, count)

    def identify(self, row: dict[str, Any]) -> Hashable:
        return self._old.identify(row)

    def close(self) -> None:
        self._old.close()
        self._new.close()


class TestAfterAll(SourceConformanceSuite):
    """SX-01 to SX-08, CO-11, CO-25, over the switch: restarts and replays before, at and after it."""

    splits_finish = True

    def create_system(self) -> ExternalSystem:
        return AfterAll()


class TestAfterNothing(SourceConformanceSuite):
    """SX-01 to SX-08, CO-11, CO-25."""

    def create_system(self) -> ExternalSystem:
        return AfterNothing()
