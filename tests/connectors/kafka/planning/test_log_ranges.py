"""Ranges of logs whose brokers answer in unusual ways, in a simulated cluster."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast

import pytest

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kafka.client import unanswered
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import TopicMetadata
from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.connectors.kafka.planning.enumerator_state import AssignedTopic, KafkaEnumeratorState
from flip27_stream.connectors.kafka.planning.log_ranges import LogRanges
from flip27_stream.connectors.kafka.split import EARLIEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import DataLossError, UnreachableError
from tests.connectors.kafka.support.log_answers import THERE, LogAnswers

STATE = KafkaEnumeratorState({"t": AssignedTopic("id", (0,))}, initial_discovery_finished=True)
GONE = SplitRange(3, 3, drained=False, final=True)
AGAIN = {"t": TopicMetadata("new", False, {0: 1})}


class LogQuery:
    def __init__(self, log: LogAnswers, *, isolation: str = "read_uncommitted", fail: bool = False) -> None:
        given = {
            "kafka.bootstrap.servers": "localhost:1",
            "subscribe": "t",
            "failOnDataLoss": str(fail),
            "kafka.isolation.level": isolation,
        }
        self.log_ranges = LogRanges(cast(KafkaClient, log), parse_kafka_options(given))
        self.log_ranges.topics = log.metadata
        self.state = STATE

    def ranges(self, position: int, enough: int | None = None) -> dict[str, SplitRange]:
        result = self.log_ranges.look({KafkaPartitionSplit("t", 0): position}, self.state, enough)
        self.state = self.state.with_successors(result.recreated)
        return result.ranges


@pytest.mark.parametrize("fail", [True, False])
def test_a_position_after_the_last_stable_offset_loses_no_record(fail: bool) -> None:
    """I1: a query that read uncommitted records goes on with read_committed. No record is lost,
    and none is read twice.
    """
    log = LogAnswers()
    query = LogQuery(log, isolation="read_committed", fail=fail)
    for position in (10, 7):
        assert query.ranges(position) == {"t-0": SplitRange(position, position, drained=False)}
    log.stable = 10
    assert query.ranges(7) == {"t-0": SplitRange(7, 10)}


def test_leader_that_falls_silent_before_it_tells_the_high_watermark() -> None:
    """Without the high watermark nobody knows whether the position is lost, so the split is left out."""
    log = LogAnswers()
    log.silent_about_all = True
    assert LogQuery(log, isolation="read_committed", fail=True).ranges(10) == {}


def test_end_of_some_time_ago_is_no_proof_of_idleness() -> None:
    """I9: a late answer has an end of some time ago. The log can be read up to it, but the split is not drained."""
    log = LogAnswers()
    log.late = True
    assert LogQuery(log).ranges(3) == {"t-0": SplitRange(3, 10, drained=False)}
    assert LogQuery(log).ranges(10) == {"t-0": SplitRange(10, 10, drained=False)}
    log.late = False
    assert LogQuery(log).ranges(10) == {"t-0": SplitRange(10, 10)}


def test_position_beyond_an_end_of_some_time_ago_is_not_lost() -> None:
    """A position beyond a late end is not lost: the end is asked for again."""
    log = LogAnswers()
    log.late, log.high_watermark = True, 5
    query = LogQuery(log, fail=True)
    ask = log.list_offsets

    def grown(*rounds: Mapping[TopicPartition, int], **how: bool) -> object:
        answers = ask(*rounds, **how)
        log.high_watermark = 10
        return answers

    log.list_offsets = grown  # type: ignore[assignment]
    assert query.ranges(8) == {"t-0": SplitRange(8, 10)}


def test_partition_that_stays_unanswered_fails_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition without an answer fails the query after three times 60 s, as in Spark's source, but not at the
    first plans after a long pause.
    """
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(unanswered, "time", SimpleNamespace(monotonic=lambda: clock.now))
    log = LogAnswers()
    query = LogQuery(log)
    log.no_leader = True
    for clock.now in (100, 200, 279, 279):
        assert query.ranges(3) == {}
    log.no_leader = False
    assert query.ranges(3) == {"t-0": SplitRange(3, 10)}
    log.no_leader = True
    for clock.now in (1000, 2000):
        assert query.ranges(3) == {}
    clock.now = 3000
    with pytest.raises(UnreachableError, match=r"no answer about t-0 for 180 s: it has no leader\. Check"):
        query.ranges(3)


def test_time_in_which_the_process_was_suspended_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time in which the process was suspended does not count: its connections are dead, and the
    network may need a moment.
    """
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(unanswered, "time", SimpleNamespace(monotonic=lambda: clock.now))
    log = LogAnswers()
    query = LogQuery(log)
    log.no_leader = True
    for clock.now in (100, 105, 1000, 1005, 1010):
        assert query.ranges(3) == {}
    log.no_leader = False
    assert query.ranges(3) == {"t-0": SplitRange(3, 10)}


def test_position_behind_the_high_watermark_is_lost() -> None:
    with pytest.raises(DataLossError, match="wanted from offset 11, available 0 to 5"):
        LogQuery(LogAnswers(), isolation="read_committed", fail=True).ranges(11)


@pytest.mark.parametrize("fail", [True, False])
def test_topic_that_a_starting_broker_does_not_know_yet(fail: bool, now: SimpleNamespace) -> None:
    """I9: a topic that a starting broker does not know yet is unknown, and neither gone nor drained. The wait begins
    anew when it was seen.
    """
    log = LogAnswers()
    query = LogQuery(log, fail=fail)
    for _ in range(3):
        log.metadata = query.log_ranges.topics = {}
        assert query.ranges(3) == {}
        now.now += 4.9
        assert query.ranges(3) == {}
        log.metadata = THERE
        assert query.ranges(3) == {"t-0": SplitRange(3, 10)}
        now.now += 4.9


def test_topic_that_stays_away_is_gone(now: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> None:
    """SK-27: a topic that stays away is a data loss. Without failOnDataLoss there is one warning, and a final range,
    which proves no idleness.
    """
    log = LogAnswers()
    log.metadata = {}
    strict, lenient = LogQuery(log, fail=True), LogQuery(log)
    assert strict.ranges(3) == lenient.ranges(3) == {}
    now.now += 5
    for _ in range(2):
        with pytest.raises(
            DataLossError, match=r"t-0 .* offset 3, available nothing, the partition was deleted"
        ):
            strict.ranges(3)
        with caplog.at_level(logging.WARNING):
            assert lenient.ranges(3) == {"t-0": GONE}
    assert caplog.text.count("may have been lost") == 1


def test_topic_ids_are_asked_for_where_there_is_something_to_read() -> None:
    """Topic ids are asked for after the ends, so that they prove these, and only if there are records to read."""
    log = LogAnswers()
    query = LogQuery(log)
    assert query.ranges(9) == {"t-0": SplitRange(9, 10)}
    assert log.asked == ["offsets", "topics"]
    log.asked.clear()
    assert query.ranges(10) == {"t-0": SplitRange(10, 10)}
    assert log.asked == ["offsets"]


def test_broker_that_does_not_know_yet_that_a_topic_was_made_again() -> None:
    """I1: the old topic id of a broker that lags behind takes no query back to the lost log. The topic is unknown
    until the broker knows the new one.
    """
    log = LogAnswers()
    query = LogQuery(log)
    log.metadata = AGAIN
    assert query.ranges(7) == {"t-0": SplitRange(0, 10)}
    log.metadata = THERE
    assert query.ranges(8) == {}
    log.metadata = AGAIN
    assert query.ranges(8) == {"t-0": SplitRange(8, 10)}


@pytest.mark.parametrize("after", [{}, AGAIN])
def test_partitions_that_existed_when_a_run_began_must_not_be_lost_by_it(
    after: Mapping[str, TopicMetadata], now: SimpleNamespace
) -> None:
    """SK-02: partitions that existed when an AvailableNow run began must not be lost by it, whatever failOnDataLoss
    says and however long the new topic is.
    """
    log = LogAnswers()
    query = LogQuery(log)
    query.ranges(3)
    query.log_ranges.freeze()
    log.metadata = after
    if not after:
        assert query.ranges(3) == {}
        now.now += 5
    with pytest.raises(DataLossError, match=r"during running query with .*: \[t-0\]$"):
        query.ranges(3)


@pytest.mark.parametrize(("after", "left"), [({}, GONE), (AGAIN, SplitRange(0, 10))])
def test_partitions_that_were_lost_before_a_run_do_not_fail_it(
    after: Mapping[str, TopicMetadata], left: SplitRange, now: SimpleNamespace
) -> None:
    """SK-02, SK-24: partitions that were lost before an AvailableNow run began do not fail it as such.
    failOnDataLoss decides.
    """
    log = LogAnswers()
    log.metadata = {}
    query, strict = LogQuery(log), LogQuery(log, fail=True)
    for each in (query, strict):
        assert each.ranges(3) == {}
        each.log_ranges.freeze()
    log.metadata = after
    now.now += 5
    assert query.ranges(3) == {"t-0": left}
    with pytest.raises(DataLossError, match="t-0 may have been lost"):
        strict.ranges(3)


# ---- a backlog in small micro-batches -------------------------------------------------------------------------------


def test_a_backlog_needs_one_look_at_its_end_in_a_quarter_of_a_second(now: SimpleNamespace) -> None:
    """The ids of topics are asked for at each look. Later ends count when the recent ones leave too few records."""
    log = LogAnswers()
    query = LogQuery(log)
    query.ranges(0)
    log.asked.clear()
    log.high_watermark = 12
    now.now += 0.25
    assert query.ranges(4, enough=6) == {"t-0": SplitRange(4, 10)}
    assert log.asked == ["topics"]
    assert query.ranges(5, enough=6) == {"t-0": SplitRange(5, 12)}
    assert query.ranges(6) == {"t-0": SplitRange(6, 12)}, "no read limit, or alignment"
    log.asked.clear()
    now.now += 0.26
    assert query.ranges(6, enough=1) == {"t-0": SplitRange(6, 12)}
    assert log.asked == ["offsets", "topics"]


def test_a_recent_end_is_of_no_use_for_another_topic(now: SimpleNamespace) -> None:
    """SK-02: log ends that were kept from the last plan are not used for a topic that was created again since."""
    log = LogAnswers()
    query = LogQuery(log)
    query.ranges(0)
    log.metadata, log.high_watermark = AGAIN, 7
    assert query.ranges(4, enough=1) == {"t-0": SplitRange(0, 7)}
    assert query.ranges(0, enough=1) == {"t-0": SplitRange(0, 7)}


def test_a_late_end_is_not_recent(now: SimpleNamespace) -> None:
    log = LogAnswers()
    query = LogQuery(log)
    query.ranges(0)
    log.late = True
    query.ranges(0)
    log.asked.clear()
    query.ranges(0, enough=1)
    assert log.asked == ["offsets", "topics"]


@pytest.mark.parametrize("position", [EARLIEST, 11])
def test_a_position_that_is_no_offset_before_the_end_is_asked_for(
    position: int, now: SimpleNamespace
) -> None:
    """A hybrid source whose switch is planned looks twice, and its new splits begin at the marker both times."""
    log = LogAnswers()
    query = LogQuery(log)
    query.ranges(0)
    found = query.ranges(position, enough=1)
    assert found == query.ranges(position) == {"t-0": SplitRange(0 if position == EARLIEST else 10, 10)}
