"""Budgets of batches and positions by event time, over files that are made of units."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.api import PositioningRequest, SplitRange
from flip27_stream.connectors.files.formats.file_units import NEVER, FileUnits
from flip27_stream.connectors.files.planning.budget import Budget
from flip27_stream.connectors.files.planning.positions import FilePositions, UnitTimes


def units(rows: list[int], times: list[tuple[int, int] | None] | None = None, size: int = 10) -> FileUnits:
    """Returns units with so many rows, and ``size`` bytes for each row."""
    least = [NEVER if t is None else t[0] for t in times or [None] * len(rows)]
    greatest = [-1 if t is None else t[1] for t in times or [None] * len(rows)]
    return FileUnits(
        borders=np.cumsum([0, *rows]).astype(np.int64),
        rows=np.array(rows, np.int64),
        sizes=np.array(rows, np.int64) * size,
        least=np.array(least, np.int64),
        greatest=np.array(greatest, np.int64),
        known=np.ones(len(rows), bool),
        divisible=False,
    )


FILES = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=5), min_size=1, max_size=5)
LIMIT = st.one_of(st.none(), st.integers(1, 80))


@given(FILES, LIMIT, LIMIT, LIMIT)
def test_batches_keep_the_limits_and_read_everything(
    files: list[list[int]], most_files: int | None, most_rows: int | None, most_bytes: int | None
) -> None:
    """I2, I6: batches never exceed the limits of rows and files. They exceed the limit of bytes by a first unit only.
    Every batch reads something, in order.
    """
    opened = [units(rows) for rows in files]
    positions = [0] * len(files)
    while positions != [one.end for one in opened]:
        size = None if most_bytes is None else most_bytes * 10
        budget = Budget(most_files, size, most_rows)
        ends = []
        for one, position in zip(opened, positions, strict=True):
            ends.append(position if budget.spent or position == one.end else budget.end(one, position))
        read = [end - position for end, position in zip(ends, positions, strict=True)]
        assert sum(read) > 0
        assert most_rows is None or sum(read) <= most_rows
        assert most_files is None or sum(part > 0 for part in read) <= most_files
        largest = max(max(rows) for rows in files)
        assert most_bytes is None or sum(read) <= max(most_bytes, largest)
        begun = [end for end in ends if end]
        assert ends[: len(begun)] == begun, "in order"
        positions = ends


UNITS = st.lists(
    st.tuples(st.integers(1, 9), st.one_of(st.none(), st.tuples(st.integers(0, 50), st.integers(0, 20)))),
    min_size=1,
    max_size=6,
)


@given(UNITS, st.data(), st.integers(0, 80), st.one_of(st.none(), st.integers(0, 80)))
def test_everything_before_an_event_time_is_read_and_no_unit_more(
    shape: list[tuple[int, tuple[int, int] | None]], data: st.DataObject, horizon: int, latest: int | None
) -> None:
    """I1: the position is exact to a unit: no unit behind it has a plausible event time before the horizon."""
    times = [None if t is None else (t[0], t[0] + t[1]) for _, t in shape]
    one = units([rows for rows, _ in shape], times)
    start = data.draw(st.integers(0, one.end - 1))
    end = data.draw(st.integers(start + 1, one.end))
    request = PositioningRequest({"a": SplitRange(start, end)}, latest)
    found = FilePositions({"a": UnitTimes.of(one)}, request)
    position, cost = found.first_at_or_after(horizon)["a"]
    later, _ = found.first_at_or_after(horizon + 1)["a"]
    assert start <= position <= later <= end
    assert cost == position - start
    inside = [
        (int(a), int(b), t)
        for a, b, t in zip(one.borders[:-1], one.borders[1:], times, strict=True)
        if b > start and a < end
    ]
    for first, _, unit_times in inside:
        plausible = unit_times is not None and (latest is None or unit_times[0] <= latest)
        if first >= position and plausible:
            assert unit_times is not None
            assert unit_times[0] >= horizon
    if position < end:
        assert position in one.borders or position == start
    known = found.event_times()["a"]
    plausible_least = [t[0] for _, _, t in inside if t is not None and (latest is None or t[0] <= latest)]
    assert known.next == min(plausible_least, default=None)
    assert known.reach is None or latest is None or known.reach <= latest
    assert (known.next is None) == (known.reach is None)
