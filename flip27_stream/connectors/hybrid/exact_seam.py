"""An exact seam: the next source begins, in each of its splits, where the source before ends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flip27_stream.api import JsonValue, SourceEvent
from flip27_stream.api.planned_range import RangeKey
from flip27_stream.connectors.hybrid.origin import Origin
from flip27_stream.connectors.hybrid.overlap import Intervals
from flip27_stream.errors import CorruptCheckpointError

_READ = "hybrid.read"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class ExactSeam:
    """The next source begins at the position after the greatest that the source before has, split by split.

    The rows of the source before must say which split of the next they came from and where they stood in it, as those
    of a table do into which a topic was copied with its columns; and it must have every row up to its greatest
    position. No clock takes part. A split of which the source before has no row begins where the next source says.

    Attributes:
        split: the id of the next source's split, with columns in braces; of Kafka's: ``{topic}-{partition}``.
        position: the column with the position in it.
    """

    split: str = "{topic}-{partition}"
    position: str = "offset"

    @property
    def origin(self) -> Origin:
        """The columns."""
        return Origin(self.split, self.position)

    def check(self, schema: pa.Schema) -> None:
        """Raises OptionError if the chain has not these columns."""
        self.origin.check(schema, "An exact seam")

    def ends(self, rows: pa.RecordBatch) -> dict[str, int]:
        """The position after the greatest one of ``rows``, by split."""
        return {split: greatest.as_py() + 1 for split, greatest in self.origin.grouped(rows, "max")}

    def known(self, ends: Mapping[str, int], others: Iterable[pa.RecordBatch]) -> dict[str, Intervals]:
        """What the source before has, by split: all up to ``ends``, and up to the rows of ``others``."""
        greatest = dict(ends)
        for rows in others:
            merge(greatest, self.ends(rows))
        return {split: ((0, end),) for split, end in greatest.items()}


def merge(ends: dict[str, int], more: Mapping[str, int]) -> None:
    """Make ``ends`` the greatest of both."""
    for split, end in more.items():
        ends[split] = max(ends.get(split, end), end)


@dataclass(frozen=True)
class RangesRead:
    """Tells the enumerator that a task has read ranges to their ends, and what rows were in them.

    Attributes:
        index: of the source.
        ranges: the ranges, each with the id of a split of that source.
        ends: the position after the greatest one, by split of the next source.
    """

    index: int
    ranges: Sequence[RangeKey]
    ends: Mapping[str, int]

    def event(self) -> SourceEvent | None:
        """As a message; ``None`` if it is too long for one: then the ranges are read again at the switch."""
        ranges: list[JsonValue] = [[*key] for key in self.ranges]
        ends: dict[str, JsonValue] = {**self.ends}
        payload: dict[str, JsonValue] = {"index": self.index, "ranges": ranges, "ends": ends}
        return SourceEvent(_READ, payload) if len(json.dumps(payload)) <= _MOST_BYTES else None

    @staticmethod
    def of(event: SourceEvent) -> RangesRead | None:
        """What a message says; ``None`` if it is another one."""
        if event.name != _READ:
            return None
        payload: Any = event.payload
        ranges = [RangeKey(*key) for key in payload["ranges"]]
        return RangesRead(payload["index"], ranges, payload["ends"])


def ends_of(data: object) -> dict[str, int] | None:
    """Positions by split, out of a checkpoint; ``None`` if they were not recorded."""
    if data is None:
        return None
    if isinstance(data, dict) and all(type(end) is int for end in data.values()):
        return dict(data)
    raise CorruptCheckpointError(
        f"The ends in the state of the hybrid enumerator are not of their form: {data!r}."
    )
