"""The results of a run: deliveries, drifts, memory, and the size of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.soak.sink import Delivery
from benchmarks.soak.watch import PublishedWatermark, Series, TableSize, last_published, lead
from benchmarks.support.results import Result, at_least, at_most

LONG_ENOUGH_S = 600
"""The least length (s) of a run whose growth is judged. Quarters of a shorter run are too short to show growth."""

_MOST_GROWTH = 1.1
_LIFE_S = 60


def delivered(name: str, found: Delivery) -> list[Result]:
    produced = f"of {found.produced:,}"
    return [
        Result(f"{name}: records lost", "", produced, [found.lost], "", at_most(0)),
        Result(f"{name}: records doubled", "", produced, [found.doubled], "", at_most(0)),
        Result(f"{name}: records never produced", "", "", [found.foreign], "", at_most(0)),
    ]


def drifts(
    rows: pa.Table,
    published: Mapping[str, Sequence[PublishedWatermark]],
    since: int,
    max_drift_ms: int,
    disorder_ms: int,
) -> list[Result]:
    """Returns the greatest drift (ms) at the ends of batches, within a source and between the two sources.

    The first is the ``drift_ms`` of the table. The second is the greatest distance of what a source had read beyond
    what the other source had published. Both are computed from ``since`` (ms) on, and by the greatest watermark that
    the other had published: the table has the drift from the newest watermark, which falls when a run begins again.
    """
    batches = len(rows.group_by(["source", "batch"]).aggregate([]))
    within = max((_drift(row, published) for row in _recorded(rows, since)), default=0)
    leads = []
    for source in published:
        others = [entry for other, entries in published.items() if other != source for entry in entries]
        leads += [lead(row, others, disorder_ms) for row in _moved(rows, source, since)]
    between = max((ahead for ahead in leads if ahead is not None), default=0)
    limit = at_most(max_drift_ms)
    return [
        Result("drift in the table", "", f"{batches:,} batches", [within], "ms", limit),
        Result("drift between the queries", "", f"{len(leads):,} ranges", [between], "ms", limit),
    ]


def _recorded(rows: pa.Table, since: int) -> list[dict[str, Any]]:
    """Returns the rows with a drift that were recorded from ``since`` (ms) on, with ``recorded_at`` in ms."""
    columns = rows["source"], rows["drift_ms"], pc.divide(rows["recorded_at"].cast(pa.int64()), 1000)
    found = pa.table(columns, ["source", "drift_ms", "recorded_at"]).to_pylist()
    return [row for row in found if row["drift_ms"] is not None and row["recorded_at"] >= since]


def _drift(row: Mapping[str, Any], published: Mapping[str, Sequence[PublishedWatermark]]) -> int:
    others = [
        last_published(entries, row["recorded_at"])
        for source, entries in published.items()
        if source != row["source"]
    ]
    drift: int = row["drift_ms"]
    return max(drift - max((other.fell_back for other in others if other is not None), default=0), 0)


def _moved(rows: pa.Table, source: str, since: int) -> list[dict[str, int]]:
    """Returns the rows of splits that were read in their batches, recorded from ``since`` (ms) on; times in ms."""
    names = ["source", "rows", "max_event_time", "recorded_at"]
    rows = rows.select(names).cast(
        pa.schema([("source", pa.string()), *((name, pa.int64()) for name in names[1:])])
    )
    return [
        {name: row[name] // 1000 for name in ("max_event_time", "recorded_at")}
        for row in rows.to_pylist()
        if row["source"] == source and row["rows"] and row["recorded_at"] >= since * 1000
    ]


def memory(name: str, planners: Series, lives: Mapping[int, Series], *, judged: bool) -> list[Result]:
    """Returns the resident memory of the planning processes of a query.

    It is given over the run and over the life of each process.
    """
    found = [_growth(f"{name}: memory of planners over the run", planners, "MB", judged)]
    long = [life.growth() for life in lives.values() if life.seconds >= _LIFE_S]
    if len(lives) > 1 and long:
        target = at_most(_MOST_GROWTH) if judged else None
        found.append(
            Result(f"{name}: memory over lives of planners", "", f"{len(long)} lives", long, target=target)
        )
    return found


def table_size(folder: TableSize, *, judged: bool) -> list[Result]:
    return [
        _growth("split-watermark table: size of its folder", folder.size, "MB", judged),
        _growth("split-watermark table: files of its log", folder.log_files, "", judged),
        _growth("split-watermark table: data files", folder.data_files, "", judged),
    ]


def restarts(count: int, planned: int) -> Result:
    return Result("kills, and restarts", "", "", [count], "", at_least(planned))


def _growth(work: str, series: Series, unit: str, judged: bool) -> Result:
    before, after = (
        f"{figure:.4g} {unit}".strip() for figure in (series.second_quarter(), series.last_quarter())
    )
    return Result(work, before, after, [series.growth()], target=at_most(_MOST_GROWTH) if judged else None)
