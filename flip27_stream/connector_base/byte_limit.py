"""The limit of option ``maxBytesPerTrigger``, for sources that estimate the bytes of their ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from flip27_stream.api import SplitRange


def within_bytes(
    ranges: Mapping[str, SplitRange],
    most: int,
    bytes_per_row: Mapping[str, float],
    cut_after: Callable[[str, int], int],
) -> dict[str, SplitRange]:
    """Returns the ranges, cut in proportion to their sizes so that they have about ``most`` bytes together.

    Each range that is not empty keeps at least one record.

    Args:
        ranges: The ranges that can be read, by split id.
        most: The limit (bytes).
        bytes_per_row: The mean size of a row (bytes), by split id.
        cut_after: Returns the position after a number of rows in the range of a split.
    """
    sizes = {name: r.cost * bytes_per_row[name] for name, r in ranges.items()}
    total = sum(sizes.values())
    if total <= most:
        return dict(ranges)
    cut = {}
    for name, r in ranges.items():
        rows = max(int(r.cost * most / total), 1)
        if r.position == r.end or rows >= r.cost:
            cut[name] = r
            continue
        end = min(cut_after(name, rows), r.end)
        behind = end < r.end
        cut[name] = replace(
            r,
            end=end,
            rows=rows,
            drained=r.drained and not behind,
            final=r.final and not behind,
            limited=r.limited or behind,
        )
    return cut
