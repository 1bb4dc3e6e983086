"""Rows of a table to plot, and the values that a plot shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

DAY_MS = 86_400_000


def fill(table: SplitWatermarkTable, source: str, batches: int = 5, splits: int = 4, run: int = 1) -> None:
    for batch in range(batches):
        rows = [
            replace(row, recorded_at=row.recorded_at + run * 60_000)
            for row in split_rows(batch, source=source, splits=splits)
        ]
        table.append(f"{source}/{run}", batch, rows, {})


def fill_before_a_wait(table: SplitWatermarkTable, newest: int) -> None:
    """Appends three batches a second apart, the last one at ``newest`` (ms), after which all splits but one wait."""
    for batch in range(3):
        rows = [replace(row, recorded_at=newest - 2000 + batch * 1000) for row in split_rows(batch)]
        table.append("clicks/1", batch, rows, {})
    stalled = entry("clicks", group="web", waiting=3, held_by="clicks-0", timeout_ms=60_000)
    stalled = replace(stalled, waits=("clicks-0",), waits_all_but=True)
    for told in (stalled, stalled.again()):
        table.note({MEMBER: told.to_text()})


def drawn(line: Line2D) -> npt.NDArray[np.float64]:
    """Returns the points of a line: batches, and watermarks in days since the epoch."""
    return np.asarray(line.get_xydata(), dtype=np.float64)


def millis(days: npt.NDArray[np.float64]) -> list[int]:
    return [int(ms) for ms in np.rint(days * DAY_MS)]


def titles(figure: Figure) -> list[str]:
    """Returns the titles of the panels."""
    return [panel.get_title() for panel in figure.axes if panel.get_title()]


def legend(figure: Figure) -> Sequence[str]:
    return [text.get_text() for entry in figure.legends for text in entry.get_texts()]
