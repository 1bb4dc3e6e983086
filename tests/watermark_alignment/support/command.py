"""Helpers for the tests of ``python -m watermark_alignment``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from watermark_alignment.table.batch_note import KEY, BatchNote
from watermark_alignment.table.split_rows import SplitRow
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

MINUTE = 60_000

Run = Callable[..., tuple[int, str, str]]


def fill(
    table: SplitWatermarkTable, rows: Sequence[SplitRow], *, batch: int = 1, unreported: int = 0
) -> None:
    """Writes two batches: the rows as ACTIVE one second before, then the rows themselves."""
    first = rows[0]
    before = [
        replace(row, batch=batch - 1, status="ACTIVE", recorded_at=row.recorded_at - 1000) for row in rows
    ]
    table.append(first.source, batch - 1, before, {})
    note = BatchNote(first.group, first.source, "lineage", batch, 2500, unreported)
    table.append(first.source, batch, [replace(row, batch=batch) for row in rows], {KEY: note.to_text()})
