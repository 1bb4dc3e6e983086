"""The overlap of two sources: the next source begins before the end of the previous one, without the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flip27_stream.connectors.hybrid.seam.origin import NamesOrigin
from flip27_stream.errors import ConnectorError

Intervals = tuple[tuple[int, int], ...]
"""Half-open ranges of positions ``(from, to)``, in ascending order, with gaps between them."""

Positions = npt.NDArray[np.int64]

_MOST_INTERVALS = 1000


@dataclass(frozen=True)
class Overlap(NamesOrigin):
    """The overlap of the next source with the previous one, and the columns by which rows in both are recognised.

    The rows of the previous source must have columns with their split and position in the next source. A table has them
    if a topic was copied into it with its columns ``topic``, ``partition`` and ``offset``.

    Attributes:
        ms: The event time (ms) by which the next source begins before the end position. It must be greater than the
            disorder of event times.
        split: The id of a split of the next source, with names of columns in braces. For Kafka ``{topic}-{partition}``.
        position: The column that has the position in that split.
    """

    what: ClassVar[str] = "An overlap"
    is_corrected_at_the_switch: ClassVar[bool] = True

    ms: int
    split: str = "{topic}-{partition}"
    position: str = "offset"

    def __post_init__(self) -> None:
        if self.ms <= 0:
            raise ValueError(f"an overlap must be longer than 0 ms: {self.ms}")

    def positions(self, batches: Iterable[pa.RecordBatch]) -> dict[str, Intervals]:
        """Returns the positions of rows, by split of the next source.

        Raises:
            ConnectorError: The positions of a split have too many gaps for a checkpoint.
        """
        found: dict[str, list[Positions]] = {}
        for batch in batches:
            for split, positions in self.origin.grouped(batch, "list"):
                found.setdefault(split, []).append(positions.values.to_numpy())
        return {split: self._intervals(split, np.concatenate(parts)) for split, parts in found.items()}

    def _intervals(self, split: str, positions: Positions) -> Intervals:
        ordered = np.unique(positions)
        breaks = np.flatnonzero(np.diff(ordered) > 1)
        firsts, lasts = ordered[np.r_[0, breaks + 1]], ordered[np.r_[breaks, len(ordered) - 1]]
        if len(firsts) > _MOST_INTERVALS:
            raise ConnectorError(
                f"Within the overlap the rows of {split} have {len(firsts)} gaps between their positions; at most "
                f"{_MOST_INTERVALS} are kept in a checkpoint. Choose a shorter overlap than {self.ms} ms."
            )
        return tuple((int(first), int(last) + 1) for first, last in zip(firsts, lasts, strict=True))


def not_among(positions: pa.Int64Array, known: Intervals) -> pa.BooleanArray | None:
    """Returns a mask that is true for positions outside ``known``, or ``None`` if all positions are after ``known``."""
    array = positions.to_numpy()
    if not len(array) or int(array.min()) >= known[-1][1]:
        return None
    edges = np.array(known, dtype=np.int64).reshape(-1)
    return pa.array(np.searchsorted(edges, array, side="right") % 2 == 0)


def intervals_of(pairs: Sequence[Sequence[int]]) -> Intervals:
    """Returns intervals as tuples, from pairs of numbers as JSON has them: lists."""
    return tuple((int(first), int(end)) for first, end in pairs)
