"""Joins the small record batches of a task, because Spark spends some time on each, however small it is."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

SMALL_BYTES = 256 * 1024
"""The size (bytes) from which on a record batch is passed to Spark alone."""

_MOST_HELD = 64


class SmallRecordBatches:
    """Holds back small record batches of one schema, until they have 256 kB or there are 64 of them.

    They are copied, so that a reader may change or free their memory, and so that only their own memory is held.
    """

    def __init__(self) -> None:
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
        """Holds back ``batch``, of ``size`` bytes. If enough is held then, yields all rows as one record batch."""
        self._held.append(pa.ipc.read_record_batch(batch.serialize(), batch.schema))
        self._bytes += size
        if self._bytes >= SMALL_BYTES or len(self._held) >= _MOST_HELD:
            yield from self.take()

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yields one record batch with all rows that are held, if there are any, and holds none of them any more."""
        held, self._held, self._bytes = self._held, [], 0
        if held:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
