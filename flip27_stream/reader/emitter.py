"""Record emitters: convert fetched records to the rows that a reader emits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic

import pyarrow as pa

from flip27_stream.api import SourceOutput
from flip27_stream.api.split import SplitT
from flip27_stream.errors import RecordFormatError
from flip27_stream.reader.progress import SplitProgress
from flip27_stream.reader.records import Records
from flip27_stream.reader.rows import to_record_batch

_MAX_ROWS = 10_000


class RecordEmitter(ABC, Generic[SplitT]):
    """Converts fetched records to rows of the source's schema (Flink ``RecordEmitter``), in the reader's thread."""

    @abstractmethod
    def emit_records(self, records: Records, output: SourceOutput, progress: SplitProgress[SplitT]) -> None:
        """Emits ``records`` into the output of their split.

        Args:
            records: Fetched records, all in the planned range.
            output: The output of the split.
            progress: The state of the split.
        """


class ArrowRecordEmitter(RecordEmitter[Any]):
    """Emits record batches as they are, and plain rows as record batches.

    Args:
        schema: The schema of the source.
        max_rows: The greatest number of rows in a record batch that is made of plain rows.
    """

    def __init__(self, schema: pa.Schema, max_rows: int = _MAX_ROWS) -> None:
        self._schema = schema
        self._max_rows = max_rows

    def emit_records(self, records: Records, output: SourceOutput, progress: SplitProgress[Any]) -> None:
        """Emits ``records``; see :meth:`RecordEmitter.emit_records`.

        Raises:
            RecordFormatError: A record batch or a plain row does not fit the source's schema.
        """
        if isinstance(records.rows, pa.RecordBatch):
            self._check(records.rows.schema, progress.split.split_id)
            output.collect(records.rows, records.timestamps, records.positions)
            return
        for first in range(0, len(records), self._max_rows):
            part = records.between(first, min(first + self._max_rows, len(records)))
            batch = to_record_batch(part, self._schema, progress.split.split_id, progress.rows + first)
            output.collect(batch, part.timestamps, part.positions)

    def _check(self, schema: pa.Schema, split_id: str) -> None:
        if schema.equals(self._schema):
            return
        found, wanted = ([str(field) for field in s] for s in (schema, self._schema))
        raise RecordFormatError(
            f"The reader of split {split_id} returned columns that are not the source's: "
            f"{', '.join(f for f in found if f not in wanted) or 'another order, or too few'}; "
            f"the schema of the source has {', '.join(wanted)}."
        )
