"""An exact seam: each split of the next source begins where the rows of the source before it end."""

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
    """A rule for the switch: each split of the next source begins behind its greatest position in the source before.

    The rows of the source before must have columns with their split and position in the next source, as a table has
    into which a topic was copied with its columns. The source before must have every row up to its greatest position.
    No clock takes part. A split without rows in the source before begins where the next source says.

    Attributes:
        split: the id of the next source's split, with columns in braces; of Kafka's: ``{topic}-{partition}``.
        position: the column with the position in that split.
    """

    split: str = "{topic}-{partition}"
    position: str = "offset"

    @property
    def origin(self) -> Origin:
        """The columns that tell where a row stands in the next source."""
        return Origin(self.split, self.position)

    def check(self, schema: pa.Schema) -> None:
        """Raises OptionError if the hybrid source does not have these columns."""
        self.origin.check(schema, "An exact seam")

    def ends(self, rows: pa.RecordBatch) -> dict[str, int]:
        """The position behind the greatest position in ``rows``, by split of the next source."""
        return {split: greatest.as_py() + 1 for split, greatest in self.origin.grouped(rows, "max")}

    def known(self, ends: Mapping[str, int], others: Iterable[pa.RecordBatch]) -> dict[str, Intervals]:
        """The positions that the source before has, by split: all below ``ends``, and all up to those in ``others``."""
        greatest = dict(ends)
        for rows in others:
            merge(greatest, self.ends(rows))
        return {split: ((0, end),) for split, end in greatest.items()}


def merge(ends: dict[str, int], more: Mapping[str, int]) -> None:
    """Raise each end in ``ends`` to the one in ``more``, if that is greater."""
    for split, end in more.items():
        ends[split] = max(ends.get(split, end), end)


@dataclass(frozen=True)
class RangesRead:
    """A report of a task to the enumerator: ranges that it has read to their ends, and the positions of their rows.

    Attributes:
        index: the index of the source.
        ranges: the ranges, each with the id of a split of that source.
        ends: the position behind the greatest position in these rows, by split of the next source.
    """

    index: int
    ranges: Sequence[RangeKey]
    ends: Mapping[str, int]

    def event(self) -> SourceEvent | None:
        """The report as an event; ``None`` if it is too long for one. Its ranges are then read again at the switch."""
        ranges: list[JsonValue] = [[*key] for key in self.ranges]
        ends: dict[str, JsonValue] = {**self.ends}
        payload: dict[str, JsonValue] = {"index": self.index, "ranges": ranges, "ends": ends}
        return SourceEvent(_READ, payload) if len(json.dumps(payload)) <= _MOST_BYTES else None

    @staticmethod
    def of(event: SourceEvent) -> RangesRead | None:
        """The report in an event; ``None`` if the event is of another kind."""
        if event.name != _READ:
            return None
        payload: Any = event.payload
        ranges = [RangeKey(*key) for key in payload["ranges"]]
        return RangesRead(payload["index"], ranges, payload["ends"])


def ends_of(data: object) -> dict[str, int] | None:
    """The positions by split in a checkpoint; ``None`` if the checkpoint has none.

    Raises:
        CorruptCheckpointError: the data has another form.
    """
    if data is None:
        return None
    if isinstance(data, dict) and all(type(end) is int for end in data.values()):
        return dict(data)
    raise CorruptCheckpointError(
        f"The ends in the state of the hybrid enumerator are not of their form: {data!r}."
    )
