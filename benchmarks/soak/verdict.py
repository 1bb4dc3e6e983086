"""What is to be said of a run, once it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import DeltaTable

from benchmarks.marks import Result, at_least, at_most
from benchmarks.soak.watch import Folder, Said, Series, lead

LONG_ENOUGH_S = 600
"""A shorter run, or quarters of it, is no time in which to see that anything grows."""

_MOST_GROWTH = 1.1
_LIFE_S = 60
_SHOWN = 5


@dataclass(frozen=True)
class Delivery:
    """What became of the records of a topic."""

    produced: int
    lost: int
    doubled: int
    foreign: int
    examples: str = field(default="", compare=False)
    """The first few that are lost or doubled."""

    @staticmethod
    def of(sink: Path, produced: Mapping[int, int], *, goes_on: bool = False) -> Delivery:
        """Looks for each number of each partition in the Delta table ``sink``; ``produced`` is how many each has.

        With ``goes_on`` these are the first ones, and further numbers are not looked at.
        """
        seen = {partition: np.zeros(count, np.int32) for partition, count in produced.items()}
        foreign = 0
        for batch in DeltaTable(str(sink)).to_pyarrow_dataset().to_batches(columns=["partition", "number"]):
            partitions, numbers = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
            known = np.zeros(batch.num_rows, bool)
            for partition, counts in seen.items():
                here = (partitions == partition) & (numbers >= 0) & (numbers < len(counts))
                np.add.at(counts, numbers[here].astype(np.int64), 1)
                known |= here | (goes_on & (partitions == partition) & (numbers >= len(counts)))
            foreign += int((~known).sum())
        lost = sum(int((counts == 0).sum()) for counts in seen.values())
        doubled = sum(int((counts - 1).clip(0).sum()) for counts in seen.values())
        return Delivery(sum(produced.values()), lost, doubled, foreign, _examples(seen))

    def results(self, name: str) -> list[Result]:
        produced = f"of {self.produced:,}"
        return [
            Result(f"{name}: records lost", "", produced, [self.lost], "", at_most(0)),
            Result(f"{name}: records doubled", "", produced, [self.doubled], "", at_most(0)),
            Result(f"{name}: records never produced", "", "", [self.foreign], "", at_most(0)),
        ]


def _examples(seen: Mapping[int, npt.NDArray[np.int32]]) -> str:
    found = [
        f"{p}-{n}: {counts[n]}x" for p, counts in seen.items() for n in np.flatnonzero(counts != 1)[:_SHOWN]
    ]
    return ", ".join(found)


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
