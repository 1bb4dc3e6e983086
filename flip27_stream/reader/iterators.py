"""A complete reader from a function that iterates over the records of one split."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import pyarrow as pa

from flip27_stream.api import SourceReaderContext
from flip27_stream.api.split import SplitT
from flip27_stream.errors import ConnectorError, Flip27Error
from flip27_stream.reader.emitter import ArrowRecordEmitter
from flip27_stream.reader.fetcher_manager import FetcherPerSplitManager, SingleThreadFetcherManager
from flip27_stream.reader.records import NoTimestamps, PlainRow, Record, Records, RecordsWithSplitIds
from flip27_stream.reader.source_reader_base import SourceReaderBase
from flip27_stream.reader.split_reader import SplitReader, SplitsAddition, SplitsChange

Read = Callable[[SplitT], Iterable[PlainRow | Record | Records | pa.RecordBatch]]
"""The type of a function that iterates over the records of a bounded split, from its start to its end.

It yields plain rows; or :class:`Record`, to give positions and timestamps too; or columns: record batches or
:class:`Records`. With positions it may yield records outside the range; without them it must keep to the range.
"""

_FETCH_ROWS = 10_000
_FETCH_S = 0.5


class IteratorSplitReader(SplitReader[SplitT]):
    """Reads one split after another, each with an iterator of its own.

    Args:
        read: See :data:`Read`; a generator is closed at the end of its split.
        fetch_rows: The greatest number of rows in a fetch, if rows come one by one; a fetch takes 0.5 s at most.
    """

    def __init__(self, read: Read[SplitT], fetch_rows: int = _FETCH_ROWS) -> None:
        self._read = read
        self._fetch_rows = fetch_rows
        self._splits: dict[str, SplitT] = {}
        self._reading: dict[str, _IteratedSplit] = {}
        self._woken = threading.Event()

    def handle_splits_changes(self, change: SplitsChange[SplitT]) -> None:
        for split in change.splits:
            if isinstance(change, SplitsAddition):
                self._splits[split.split_id] = split
            else:
                self._drop(split.split_id)

    def wake_up(self) -> None:
        """Ends the running fetch at the next row. A function that is waiting itself is not interrupted."""
        self._woken.set()

    def close(self) -> None:
        for split_id in list(self._splits):
            self._drop(split_id)

    def fetch(self) -> RecordsWithSplitIds:
        split_id = next(iter(self._splits))
        try:
            records, ended = self._collect(split_id)
        except Flip27Error:
            raise
        except Exception as e:
            raise ConnectorError(f"Reading split {split_id} failed: {type(e).__name__}: {e}") from e
        if ended:
            self._drop(split_id)
        return RecordsWithSplitIds(
            {split_id: records} if records else {}, finished=[split_id] if ended else ()
        )

    def _collect(self, split_id: str) -> tuple[list[Records], bool]:
        """Returns the records of one fetch, and whether the split is at its end."""
        reading = self._reading.get(split_id)
        if reading is None:
            iterator = iter(self._read(self._splits[split_id]))
            reading = self._reading[split_id] = _IteratedSplit(split_id, iterator)
        ended = not self._woken.is_set() and reading.advance(self._fetch_rows, self._woken)
        self._woken.clear()
        return reading.take(), ended

    def _drop(self, split_id: str) -> None:
        self._splits.pop(split_id, None)
        reading = self._reading.pop(split_id, None)
        if reading is not None:
            reading.close()


class _IteratedSplit:
    """The iterator of one split. It collects single rows into ``Records``; columns stay as they are."""

    def __init__(self, split_id: str, iterator: Iterator[Any]) -> None:
        self._split_id = split_id
        self._iterator = iterator
        self._collected: list[Records] = []
        self._rows: list[Any] = []
        self._positions: list[int] = []
        self._timestamps: list[int | None] = []
        self._has_timestamps = False
        self._last: int | None = None

    def advance(self, most: int, woken: threading.Event) -> bool:
        """Collects up to ``most`` rows, for 0.5 s or until woken; returns whether the iterator has ended."""
        deadline = time.monotonic() + _FETCH_S
        count = 0
        for item in self._iterator:
            if isinstance(item, (Records, pa.RecordBatch)):
                self._bundle()
                self._collected.append(item if isinstance(item, Records) else Records(item))
                count += len(self._collected[-1])
            else:
                self._add(item)
                count += 1
            if count >= most or woken.is_set() or time.monotonic() > deadline:
                return False
        return True

    def take(self) -> list[Records]:
        """Returns what was collected since the last call."""
        self._bundle()
        collected, self._collected = self._collected, []
        return collected

    def close(self) -> None:
        """Closes the iterator, if it is a generator."""
        if isinstance(self._iterator, Generator):
            self._iterator.close()

    def _add(self, item: Any) -> None:
        record = item if isinstance(item, Record) else None
        position = record.position if record is not None else None
        if self._rows and bool(self._positions) != (position is not None):
            self._bundle()
        if position is not None:
            if self._last is not None and position <= self._last:
                raise ConnectorError(
                    f"The records of split {self._split_id} are out of order: position {position} comes after "
                    f"{self._last}. Positions of single records must rise; yield rows with the same position in "
                    "one Records object."
                )
            self._last = position
            self._positions.append(position)
        self._rows.append(item if record is None else record.row)
        timestamp = NoTimestamps.HERE if record is None else record.timestamp
        self._has_timestamps |= not isinstance(timestamp, NoTimestamps)
        self._timestamps.append(None if isinstance(timestamp, NoTimestamps) else timestamp)

    def _bundle(self) -> None:
        if self._rows:
            timestamps = self._timestamps if self._has_timestamps else None
            self._collected.append(Records(self._rows, timestamps, self._positions or None))
            self._rows, self._positions, self._timestamps = [], [], []
            self._has_timestamps = False


class IteratorSourceReader(SourceReaderBase[SplitT]):
    """A complete reader from one function (:data:`Read`).

    Args:
        context: The context of the task.
        schema: The schema of the source.
        read: See :data:`Read`.
        threads: How many splits are read at the same time; more than 1 helps if ``read`` waits for an external system.
    """

    def __init__(
        self, context: SourceReaderContext, schema: pa.Schema, read: Read[SplitT], threads: int = 1
    ) -> None:
        def make() -> SplitReader[SplitT]:
            return IteratorSplitReader(read)

        super().__init__(
            context,
            SingleThreadFetcherManager(make)
            if threads == 1
            else FetcherPerSplitManager(make, max_fetchers=threads),
            ArrowRecordEmitter(schema),
        )
