"""The exact seam: each split of the next source begins where the rows of the previous source end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from flip27_stream.api import JsonValue, SourceEvent
from flip27_stream.api.planned_range import RangeKey
from flip27_stream.connectors.hybrid.seam.origin import NamesOrigin
from flip27_stream.connectors.hybrid.seam.overlap import Intervals
from flip27_stream.errors import CorruptCheckpointError

_READ = "hybrid.read"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class ExactSeam(NamesOrigin):
    """A rule for the switch: each split of the next source begins after its greatest position in the previous source.

    The rows of the previous source must have columns with their split and position in the next source. A table has them
    if a topic was copied into it with its columns ``topic``, ``partition`` and ``offset``. The previous source must
    have every row up to its greatest position. Event times are not used. A split that has no rows in the previous
    source begins at the start position of the next source.

    Attributes:
        split: The id of a split of the next source, with names of columns in braces. For Kafka ``{topic}-{partition}``.
        position: The column that has the position in that split.
    """

    what: ClassVar[str] = "An exact seam"
    is_corrected_at_the_switch: ClassVar[bool] = False

    split: str = "{topic}-{partition}"
    position: str = "offset"

    def ends(self, rows: pa.RecordBatch) -> dict[str, int]:
        """Returns the greatest position in ``rows`` plus one, by split of the next source."""
        return {split: greatest.as_py() + 1 for split, greatest in self.origin.grouped(rows, "max")}

    def positions_before(
        self, ends: Mapping[str, int], others: Iterable[pa.RecordBatch]
    ) -> dict[str, Intervals]:
        """Returns the positions that the previous source has read, as intervals by split of the next source.

        The intervals go from 0 to the end.

        Args:
            ends: The greatest reported position plus one, by split.
            others: Rows that no task reported; their positions can be greater than ``ends``.
        """
        greatest = dict(ends)
        for rows in others:
            merge(greatest, self.ends(rows))
        return {split: ((0, end),) for split, end in greatest.items()}


def merge(ends: dict[str, int], more: Mapping[str, int]) -> None:
    """Raises each end in ``ends`` to the end in ``more`` if that is greater."""
    for split, end in more.items():
        ends[split] = max(ends.get(split, end), end)


@dataclass(frozen=True)
class SourceRangesRead:
    """A report of a task to the enumerator: the ranges that it has read to their ends, and the ends of their rows.

    Attributes:
        index: The index of the source.
        ranges: The ranges, with the ids of splits of that source.
        ends: The greatest position of these rows plus one, by split of the next source.
    """

    index: int
    ranges: Sequence[RangeKey]
    ends: Mapping[str, int]

    def event(self) -> SourceEvent | None:
        """Returns the report as an event, or ``None`` if it is too long.

        The ranges of a report that is not sent are read again at the switch.
        """
        ranges: list[JsonValue] = [[*key] for key in self.ranges]
        ends: dict[str, JsonValue] = {**self.ends}
        payload: dict[str, JsonValue] = {"index": self.index, "ranges": ranges, "ends": ends}
        return SourceEvent(_READ, payload) if len(json.dumps(payload)) <= _MOST_BYTES else None

    @staticmethod
    def of(event: SourceEvent) -> SourceRangesRead | None:
        """Returns the report in an event, or ``None`` if the event is of another kind."""
        if event.name != _READ:
            return None
        payload: Any = event.payload
        ranges = [RangeKey(*key) for key in payload["ranges"]]
        return SourceRangesRead(payload["index"], ranges, payload["ends"])


def ends_of(data: object) -> dict[str, int] | None:
    """Returns the ends by split that a checkpoint has, or ``None`` if ``data`` is ``None``.

    Raises:
        CorruptCheckpointError: The data has another form.
    """
    if data is None:
        return None
    if isinstance(data, dict) and all(type(end) is int for end in data.values()):
        return dict(data)
    raise CorruptCheckpointError(
        f"The ends in the state of the hybrid enumerator have an unknown form: {data!r}."
    )
