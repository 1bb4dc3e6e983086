"""The Delta table that a query writes, and which records are lost or doubled in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

_SHOWN = 5
_MOST = 100_000_000

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Delivery:
    """The records of a topic that a sink has, lacks, or has twice."""

    produced: int
    lost: int
    doubled: int
    foreign: int
    examples: str = field(default="", compare=False)
    """The first few lost or doubled records, as text."""


class Sink:
    """A table to which rows are only added, with the partition and the number of each record; it is read as it grows.

    Attributes:
        rows: The number of rows at the last look.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, 0
        self._counts: dict[int, Counts] = {}
        self._odd = 0
        self._table: DeltaTable | None = None
        self._files: set[str] = set()

    def look(self) -> None:
        """Reads the rows that were added since the last look."""
        try:
            if self._table is None:
                self._table = DeltaTable(str(self.path))
            else:
                self._table.update_incremental()
        except TableNotFoundError:
            return
        new = sorted(set(self._table.file_uris()) - self._files)
        self._files.update(new)
        if new:
            self._add(ds.dataset(new, format="parquet").to_table(columns=["partition", "number"]))

    def delivery(self, produced: Mapping[int, int], *, goes_on: bool = False) -> Delivery:
        """Returns which records the sink has, of the ``produced`` number of each partition. They are numbered from 0.

        With ``goes_on`` these are only the first records, and rows with greater numbers are ignored.
        """
        seen = {p: _padded(self._counts.get(p, _NOTHING), count) for p, count in produced.items()}
        wanted = {p: seen[p][:count] for p, count in produced.items()}
        strange = sum(int(counts.sum()) for p, counts in self._counts.items() if p not in produced)
        beyond = 0 if goes_on else sum(int(seen[p][count:].sum()) for p, count in produced.items())
        return Delivery(
            produced=sum(produced.values()),
            lost=sum(int((counts == 0).sum()) for counts in wanted.values()),
            doubled=sum(int((counts - 1).clip(0).sum()) for counts in wanted.values()),
            foreign=self._odd + strange + beyond,
            examples=_examples(wanted),
        )

    def _add(self, rows: pa.Table) -> None:
        self.rows += rows.num_rows
        partitions, numbers = (column.fill_null(-1).to_numpy() for column in rows.columns)
        known = (partitions >= 0) & (numbers >= 0) & (numbers < _MOST)
        self._odd += int((~known).sum())
        for partition in np.unique(partitions[known]).tolist():
            added = np.bincount(numbers[known & (partitions == partition)])
            before = self._counts.get(partition, _NOTHING)
            length = max(len(added), len(before))
            self._counts[partition] = _padded(before, length) + _padded(added, length)


_NOTHING: Counts = np.zeros(0, np.int64)


def _padded(counts: Counts, length: int) -> Counts:
    return np.pad(counts, (0, max(length - len(counts), 0)))


def _examples(counts: Mapping[int, Counts]) -> str:
    found = [f"{p}-{n}: {each[n]}x" for p, each in counts.items() for n in np.flatnonzero(each != 1)[:_SHOWN]]
    return ", ".join(found)
