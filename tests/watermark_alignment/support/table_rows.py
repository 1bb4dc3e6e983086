"""Rows of a simulated source, for the tests of the split-watermark table."""

from __future__ import annotations

from watermark_alignment.table.split_rows import SplitRow

START_MS = 1_700_000_000_000


def split_rows(batch: int, *, source: str = "clicks", splits: int = 4, group: str = "web") -> list[SplitRow]:
    """Returns the rows of a batch. Batches are a second apart, and split ``i`` is ``i`` seconds behind."""
    now = START_MS + batch * 1000
    return [
        SplitRow(
            group=group,
            source=source,
            split=f"clicks-{i}",
            batch=batch,
            start_position=str(batch * 10),
            end_position=str(batch * 10 + 10),
            rows=10,
            watermark=now - i * 1000 - 1,
            max_event_time=now - i * 1000,
            status="ACTIVE",
            drift_ms=(splits - 1 - i) * 1000,
            recorded_at=now,
        )
        for i in range(splits)
    ]
