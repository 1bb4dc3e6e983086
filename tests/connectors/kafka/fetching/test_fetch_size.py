"""The size of a fetch: it is enough for the rest of a range, or for as many whole batches as may come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.kafka.fetching.fetch_size import _LEAST_FETCH, FetchSize
from flip27_stream.connectors.kafka.records.batch_headers import CompleteBatches

MOST = 4 << 20


def size_after(batch_size: int, records: int, batches: int = 4) -> FetchSize:
    """Returns a :class:`FetchSize` that has recorded one answer, whose batches all have the same size."""
    size = FetchSize()
    size.add(
        CompleteBatches(records * batches, batch_size * batches, batch_size, batch_size), records * batches
    )
    return size


def test_the_first_fetch_of_a_small_range_is_small() -> None:
    assert FetchSize().next(1, MOST) == _LEAST_FETCH
    assert FetchSize().next(1000, MOST) < MOST
    assert FetchSize().next(10_000_000, MOST) == MOST
    assert FetchSize().next(1, 1000) == 1000


@given(
    batch_size=st.integers(100, MOST),
    records=st.integers(1, 10_000),
    left=st.integers(1, 200),
    more=st.integers(0, 1),
)
def test_the_rest_of_a_range_comes_at_once_if_it_fits(
    batch_size: int, records: int, left: int, more: int
) -> None:
    """The range may end in the middle of a batch, and its batches may be a little larger than those before."""
    offsets = (left - 1) * records + more
    needed = -(-offsets // records) * batch_size
    asked = size_after(batch_size, records).next(max(1, offsets), MOST)
    assert asked <= MOST
    if needed * 1.04 + batch_size <= MOST:
        assert asked >= needed


@given(batch_size=st.integers(100, MOST * 2), records=st.integers(1, 10_000), offsets=st.integers(1, 10**9))
def test_a_fetch_is_never_cut_off_by_much(batch_size: int, records: int, offsets: int) -> None:
    """With batches of one size, less than a twentieth of the bytes come a second time, but for the last fetch."""
    asked = size_after(batch_size, records).next(offsets, MOST)
    assert 0 < asked <= MOST
    is_capped = offsets / records * batch_size > MOST
    if is_capped and batch_size * 33 // 32 <= MOST:
        assert asked % batch_size <= asked / 20
        assert asked >= MOST / 2


def test_batches_of_several_sizes_are_fetched_at_the_greatest_size() -> None:
    """The next batch may be larger than the last one, and would then be cut off."""
    size = size_after(500_000, 100)
    size.add(CompleteBatches(800, 1_500_000, 480_000, 500_000), 300)
    assert size.next(10_000_000, MOST) == MOST
    size.add(CompleteBatches(1100, 1_500_000, 500_000, 500_000), 300)
    assert size.next(10_000_000, MOST) == MOST // 515_625 * 515_625
    size.add(CompleteBatches(1101, 600_000, 600_000, 600_000), 1)
    size.add(CompleteBatches(1201, 500_000, 500_000, 500_000), 100)
    assert size.next(10_000_000, MOST) == MOST


def test_an_answer_with_markers_alone_has_no_batch_size() -> None:
    size = FetchSize()
    size.add(CompleteBatches(5, 78, 0, 0), 1)
    assert size.next(1, MOST) == _LEAST_FETCH
    assert size.next(10_000_000, MOST) == MOST
