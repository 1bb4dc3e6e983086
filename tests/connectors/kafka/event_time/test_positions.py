"""Positions by event time in simulated logs are those of reading every record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.api import EventTimePositions, EventTimes, PositioningRequest, SplitRange
from flip27_stream.connectors.kafka.event_time import position_finder, positions
from flip27_stream.connectors.kafka.event_time.position_finder import PositionFinder
from flip27_stream.connectors.kafka.event_time.position_reads import PositionReads
from flip27_stream.connectors.kafka.event_time.positions import Bisection, KnownPositions, Locator
from flip27_stream.connectors.kafka.split import TopicPartition
from tests.connectors.kafka.event_time.timestamp_index import TimestampIndex
from tests.connectors.kafka.support.simulated_log import (
    Log,
    LogRecord,
    SimulatedCluster,
    first_at_or_after,
    logs,
    readable,
)

LATEST_PLAUSIBLE = 5_000
LOCATORS = st.sampled_from([TimestampIndex(), Bisection(5), Bisection(50)])
EVENT_TIMES = st.lists(
    st.integers(0, 60) | st.sampled_from([0, 200, 5_001, 10_010, 1_000_001, 2**63 - 1]), max_size=12
)


@pytest.fixture(autouse=True, scope="module")
def _small_steps() -> Iterator[None]:
    """Makes bisection go on to the last record, and look back at few, because the logs of a test are short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(positions, "_NEAR", 1)
        patch.setattr(positions, "_TAIL_RECORDS", 2)
        yield


def finder(cluster: SimulatedCluster, locator: Locator) -> PositionFinder:
    return PositionFinder(PositionReads(cast(Any, cluster), cast(Any, cluster), read_committed=True), locator)


def plan(
    maker: PositionFinder,
    ranges: dict[TopicPartition, SplitRange],
    latest: int | None = LATEST_PLAUSIBLE,
    budget: int | None = None,
) -> EventTimePositions:
    request = PositioningRequest({str(tp): span for tp, span in ranges.items()}, latest, budget)
    return maker.positions({str(tp): tp for tp in ranges}, dict.fromkeys(ranges, ""), request)


def span_of(log: Log, position: int, end: int | None = None) -> SplitRange:
    last = log[-1].offset + 1 if log else 0
    end = last if end is None else min(end, last)
    return SplitRange(min(position, end), end)


@given(
    st.lists(logs(), min_size=1, max_size=3),
    LOCATORS,
    EVENT_TIMES,
    st.integers(0, 30),
    st.none() | st.integers(0, 20),
    st.sampled_from([None, LATEST_PLAUSIBLE]),
    st.integers(1, 7),
)
def test_positions_are_those_of_a_scan_of_every_record(
    all_logs: list[Log],
    locator: Locator,
    event_times: list[int],
    position: int,
    budget: int | None,
    latest: int | None,
    batch: int,
) -> None:
    """I1, I12, rules 3 and 6: markers and aborted, null and implausible records move no position."""
    by_tp = {TopicPartition("t", n): log for n, log in enumerate(all_logs)}
    ranges = {tp: span_of(log, position) for tp, log in by_tp.items()}
    ranges = {tp: span for tp, span in ranges.items() if span.position < span.end}
    if latest is None:  # then times in the far future are plausible, and the disorder is not bounded
        locator = TimestampIndex()
    found = plan(finder(SimulatedCluster(by_tp, batch), locator), ranges, latest, budget)
    for tp, span in ranges.items():
        known = readable(by_tp[tp], span.position, span.end, latest)
        times = found.event_times()[str(tp)]
        assert times.next == (known[0].time if known else None)
        assert (times.reach is None) == (not known)
        assert times.reach is None or times.reach in {r.time for r in known}
    for event_time in (near for each in event_times for near in (each, each + 1, each - 1)):
        answer = found.first_at_or_after(event_time)
        assert answer.keys() == {str(tp) for tp in ranges}
        for tp, span in ranges.items():
            limit = span.end if budget is None else min(span.end, span.position + budget)
            expected = min(limit, first_at_or_after(by_tp[tp], span.position, span.end, latest, event_time))
            assert answer[str(tp)] == (expected, expected - span.position)


@given(logs(), st.integers(1, 7), st.integers(0, 30))
def test_the_greatest_event_time_leaves_out_markers_and_implausible_times(
    log: Log, batch: int, position: int
) -> None:
    """In a log with plausible data records only, the index gives the exact reach with one request."""
    data = [r for r in log if r.data and 0 <= r.time <= LATEST_PLAUSIBLE]
    span = span_of(data, position)
    if span.position < span.end:
        tp = TopicPartition("t", 0)
        found = plan(finder(SimulatedCluster({tp: data}, batch), TimestampIndex()), {tp: span})
        known = [r.time for r in data if r.offset >= span.position]
        whole = max(r.time for r in data)
        if whole in known and next(r.offset for r in data if r.time == whole) >= span.position:
            assert found.event_times()["t-0"].reach == max(known, default=None)


@given(logs(most=60, disorder=200), st.lists(st.integers(0, 300), min_size=2, max_size=8), st.integers(1, 5))
def test_positions_stay_monotone_if_disorder_exceeds_its_bound(
    log: Log, event_times: list[int], batch: int
) -> None:
    """Event times have more disorder than declared. Positions never decrease as the horizon H grows, and a
    batch is not empty (I6).
    """
    tp, span = TopicPartition("t", 0), span_of(log, 0)
    if span.position == span.end:
        return
    found = plan(finder(SimulatedCluster({tp: log}, batch), Bisection(2)), {tp: span})
    answers = {h: found.first_at_or_after(h)["t-0"][0] for h in event_times}
    in_order = [answers[h] for h in sorted(answers)]
    assert in_order == sorted(in_order)
    assert all(span.position <= position <= span.end for position in in_order)
    first = found.event_times()["t-0"].next
    if first is not None:
        assert found.first_at_or_after(first + 1)["t-0"][1] > 0


def test_positions_that_are_found_out_of_order_stay_monotone() -> None:
    """An event time is found at a record that also answers a greater event time, asked for before.
    Answers stay monotone.
    """
    known = KnownPositions(0, 100)
    known.learn(60, 51)
    known.learn(170, 51)
    known.learn(51, 43)
    known.learn(150, 43)
    assert [known.bounds(event_time) for event_time in (51, 55, 60, 150, 160)] == [
        (43, 43), (43, 51), (51, 51), (51, 51), (51, 51),
    ]  # fmt: skip


@given(logs(most=60), LOCATORS, st.lists(st.integers(0, 300), min_size=1, max_size=5), st.integers(1, 5))
def test_no_record_is_read_twice_over_several_plans(
    log: Log, locator: Locator, horizons: list[int], batch: int
) -> None:
    """Records that were read are remembered. Later plans begin where earlier ones ended, and answers stay
    right as the log grows.
    """
    tp = TopicPartition("t", 0)
    cluster = SimulatedCluster({tp: log}, batch)
    maker = finder(cluster, locator)
    position, end = 0, len(log) // 2
    for horizon in sorted(horizons):
        span = span_of(log, position, end)
        end += 7
        if span.position == span.end:
            continue
        found = plan(maker, {tp: span})
        position, rows = found.first_at_or_after(horizon)["t-0"]
        expected = first_at_or_after(log, span.position, span.end, LATEST_PLAUSIBLE, horizon)
        assert (position, rows) == (expected, expected - span.position)
    assert len(cluster.reads) == len(set(cluster.reads))


@pytest.mark.parametrize("locator", [TimestampIndex(), Bisection(5)])
def test_records_without_an_event_time_are_read_once(
    locator: Locator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan does not read a long stretch of such records again that an earlier plan has read."""
    monkeypatch.setattr(position_finder, "_CACHED_RECORDS", 10)
    log = [LogRecord(offset, -1) for offset in range(100)] + [LogRecord(100, 7)]
    tp = TopicPartition("t", 0)
    cluster = SimulatedCluster({tp: log})
    maker = finder(cluster, locator)
    for position in (0, 2, 4):
        assert plan(maker, {tp: SplitRange(position, 101)}).event_times()["t-0"] == EventTimes(7, 7)
    offsets = [offset for _, offset in cluster.reads]
    assert sorted(set(offsets)) == offsets


def test_a_first_record_at_the_horizon_is_not_read() -> None:
    """A horizon H at or below the first event time needs no row. The split is PAUSED with a witness (I5)."""
    tp, log = TopicPartition("t", 0), [LogRecord(i, 100 + i) for i in range(10)]
    found = plan(finder(SimulatedCluster({tp: log}), TimestampIndex()), {tp: span_of(log, 3)})
    assert found.event_times() == {"t-0": EventTimes(103, 109)}
    assert found.first_at_or_after(103) == {"t-0": (3, 0)}
    assert found.first_at_or_after(-5) == {"t-0": (3, 0)}
    assert found.first_at_or_after(104) == {"t-0": (4, 1)}


def test_index_answer_below_the_position_proves_nothing() -> None:
    """Rule 3: the first record of the whole log at or above H may have been read already, so it proves nothing."""
    tp, log = TopicPartition("t", 0), [LogRecord(i, time) for i, time in enumerate([50, 10, 20, 60])]
    found = plan(finder(SimulatedCluster({tp: log}), TimestampIndex()), {tp: span_of(log, 1)})
    assert found.first_at_or_after(30) == {"t-0": (3, 2)}


def test_split_of_a_silent_leader_is_unknown() -> None:
    """Rule 5: a split whose leader did not answer is unknown, and neither empty nor idle."""
    answering, silent = TopicPartition("t", 0), TopicPartition("t", 1)
    log = [LogRecord(i, i) for i in range(10)]
    cluster = SimulatedCluster({answering: log, silent: log})
    cluster.silent = {silent}
    found = plan(finder(cluster, TimestampIndex()), {answering: span_of(log, 0), silent: span_of(log, 0)})
    assert found.event_times().keys() == {"t-0"}
    assert found.first_at_or_after(4) == {"t-0": (4, 4)}


@given(logs(most=60), LOCATORS, st.lists(st.integers(0, 300), min_size=3, max_size=6), st.integers(0, 5))
def test_a_leader_that_falls_silent_during_a_search_leaves_its_split_unknown(
    log: Log, locator: Locator, horizons: list[int], after: int
) -> None:
    """Answers stay monotone and never pass a record at or above H, while the leader falls silent
    and answers again.
    """
    tp, span = TopicPartition("t", 0), span_of(log, 0)
    cluster = SimulatedCluster({tp: log})
    found = plan(finder(cluster, locator), {tp: span})
    if span.position == span.end or not found.event_times():
        return
    answers = {}
    for n, horizon in enumerate(horizons):
        cluster.silent = {tp} if n >= after else set()
        answers[horizon] = found.first_at_or_after(horizon)["t-0"][0]
        assert answers[horizon] <= first_at_or_after(log, span.position, span.end, LATEST_PLAUSIBLE, horizon)
    in_order = [answers[h] for h in sorted(answers)]
    assert in_order == sorted(in_order)
