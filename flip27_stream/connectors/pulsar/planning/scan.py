"""The messages of a partition that the planning process has read and no task has processed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flip27_stream.api import TimestampAssigner
from flip27_stream.arrays import Int64s
from flip27_stream.connectors.pulsar.positions import entry_of, ledger_of, position_of
from flip27_stream.connectors.pulsar.records.columns import rows_of

NO_EVENT_TIME = -1


class Scan:
    """The messages of a partition that planning has read: all from one position on, without a gap."""

    def __init__(self) -> None:
        self._start = 0
        self.positions: list[int] = []
        self._sizes: list[int] = []
        self._rows: pa.RecordBatch | None = None
        self._published: pa.Int64Array | None = None

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def behind(self) -> int:
        """The position after the last message."""
        return self.positions[-1] + 1

    @property
    def last_published(self) -> int:
        """The publish time (ms) of the last message."""
        return int(self._published[-1].as_py()) if self._published is not None else 0

    @property
    def size(self) -> int:
        """The size of the values (bytes)."""
        return sum(self._sizes)

    @property
    def bytes_per_row(self) -> float:
        return self.size / len(self) if self._sizes else 0.0

    @property
    def rows_per_entry(self) -> float:
        """The mean number of messages in an entry."""
        entries = len({(ledger_of(p), entry_of(p)) for p in self.positions})
        return len(self) / entries if entries else 1.0

    def add(self, messages: Sequence[Any]) -> None:
        """Adds the messages that follow the last message."""
        if not messages:
            return
        ids, data = [m.message_id() for m in messages], [m.data() for m in messages]
        self.positions += map(position_of, ids)
        self._sizes += map(len, data)
        rows, published = rows_of(messages, ids, data)
        if self._rows is not None:
            rows = pa.concat_batches([self._rows, rows])
            published = pa.concat_arrays([self._published, published])
        self._rows, self._published = rows, published

    def advance(self, position: int) -> None:
        """Drops the messages before ``position``; drops all of them if ``position`` is before the scan."""
        if position < self._start:
            self.positions.clear()
            self._sizes.clear()
        at = bisect_left(self.positions, position)
        del self.positions[:at], self._sizes[:at]
        if self.positions and self._rows is not None and self._published is not None:
            self._rows, self._published = self._rows.slice(at), self._published.slice(at)
        else:
            self._rows = self._published = None
        self._start = position

    def event_times(self, assigner: TimestampAssigner, plausible_until: int | None) -> Int64s:
        """Returns the event time (ms) of each message; -1 if the message has no plausible event time."""
        if self._rows is None:
            return np.empty(0, np.int64)
        return event_times(self._rows, self._published, assigner, plausible_until)


def event_times(
    rows: pa.RecordBatch, published: pa.Int64Array, assigner: TimestampAssigner, plausible_until: int | None
) -> Int64s:
    """Returns the event time (ms) of each row; -1 if the row has no event time up to ``plausible_until`` (ms)."""
    column = assigner.event_times(rows, published)
    times: Int64s = column.fill_null(NO_EVENT_TIME).to_numpy(zero_copy_only=False).astype(np.int64)
    if plausible_until is not None:
        times = np.where(times > plausible_until, NO_EVENT_TIME, times)
    return np.maximum(times, NO_EVENT_TIME)
