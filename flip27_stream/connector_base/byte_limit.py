"""Option ``maxBytesPerTrigger``: ranges that are estimated to have more bytes are cut."""

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
    """The ranges with about ``most`` bytes altogether, in proportion, and at least a record of each.

    Args:
        ranges: by split id.
        most: bytes.
        bytes_per_row: of each split.
        cut_after: the position so many rows into a range.
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
            limited=behind,
        )
    return cut
