"""``SplitProgress`` takes those of the fetched records that are in the planned range."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.reader import Records, SplitProgress
from tests.reader.support.kit import Numbers

LOGS = st.lists(st.integers(0, 60), unique=True).map(sorted)


@given(
    log=LOGS,
    start=st.integers(0, 60),
    length=st.integers(0, 60),
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=30),
)
def test_every_record_of_the_range_is_taken_once(
    log: list[int], start: int, length: int, steps: list[tuple[int, int]]
) -> None:
    """Every record of the range is taken once, whatever blocks are fetched. Positions may have gaps, and a block may
    begin before the end of the last one.
    """
    end = start + length
    progress = SplitProgress(Numbers(number=0), start, end)
    taken: list[int] = []
    at = 0
    for back, size in [*steps, (0, len(log))]:
        block = log[max(at - back, 0) : at + size]
        at += size
        kept = progress.take(Records(list(block), positions=block))
        taken += kept.rows
        assert (kept.positions.to_pylist() if kept.positions is not None else []) == kept.rows
        assert start <= (progress.position or 0) <= end
    assert taken == [p for p in log if start <= p < end]
    assert progress.at_end or not log or log[-1] < end - 1


def test_the_rest_of_a_split_is_its_unread_range() -> None:
    """The rest of a split begins at the first position that was not taken. A split without a known range is left
    whole.
    """
    split = Numbers(number=0, start=2, end=9)
    progress = SplitProgress(split, 2, 9)
    progress.take(Records(["a", "b"], positions=[3, 5]))
    assert progress.rest() == Numbers(number=0, start=6, end=9)
    assert SplitProgress(split).rest() == split
