"""What is to be said of a run, once it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from benchmarks.marks import Result, at_least, at_most
from benchmarks.soak.sink import Delivery
from benchmarks.soak.watch import Folder, Said, Series, lead

LONG_ENOUGH_S = 600
"""A shorter run, or quarters of it, is no time in which to see that anything grows."""

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
    rows: pa.Table, said: Mapping[str, Sequence[Said]], since: int, max_drift_ms: int, disorder_ms: int
) -> list[Result]:
    """How far (ms) anything was read ahead at the ends of batches, in a source and between the two.

    The first is what the table says (``drift_ms``), the second what each had read beyond what the other had said.
    Both are looked at from ``since`` (ms) on.
    """
    batches = len(rows.group_by(["source", "batch"]).aggregate([]))
    drifts = zip(rows["drift_ms"].to_pylist(), rows["recorded_at"].cast(pa.int64()).to_pylist(), strict=True)
    told = max((drift for drift, at in drifts if drift is not None and at >= since * 1000), default=0)
    leads = []
    for source in said:
        others = [entry for other, told in said.items() if other != source for entry in told]
        leads += [lead(row, others, disorder_ms) for row in _moved(rows, source, since)]
    between = max((ahead for ahead in leads if ahead is not None), default=0)
    limit = at_most(max_drift_ms)
    return [
        Result("drift in the table", "", f"{batches:,} batches", [told], "ms", limit),
        Result("drift between the queries", "", f"{len(leads):,} ranges", [between], "ms", limit),
    ]


def _moved(rows: pa.Table, source: str, since: int) -> list[dict[str, int]]:
    """Of splits that were read in their batches, recorded from ``since`` on; times in ms."""
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
    """Resident memory of the planning processes of a query, over the run, and over the lives of each."""
    found = [_growth(f"{name}: memory of planners over the run", planners, "MB", judged)]
    long = [life.growth() for life in lives.values() if life.seconds >= _LIFE_S]
    if len(lives) > 1 and long:
        mark = at_most(_MOST_GROWTH) if judged else None
        found.append(
            Result(f"{name}: memory over lives of planners", "", f"{len(long)} lives", long, mark=mark)
        )
    return found


def table_size(folder: Folder, *, judged: bool) -> list[Result]:
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
    return Result(work, before, after, [series.growth()], mark=at_most(_MOST_GROWTH) if judged else None)
