"""Offsets at which reading begins and ends: how options give them, and which offsets they are in a cluster."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from flip27_stream.connectors.kafka.offsets_initializer import (
    AtTimestamp,
    Committed,
    Earliest,
    Latest,
    OffsetsInitializer,
    Specific,
)
from flip27_stream.connectors.kafka.options import offset_options
from flip27_stream.connectors.kafka.options.source_options import KafkaOptions, parse_kafka_options
from flip27_stream.connectors.kafka.split import EARLIEST, TopicPartition
from flip27_stream.errors import ConnectorError, OptionError

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
P0, P1, P2 = (TopicPartition("t", n) for n in range(3))


def batch(**options: str) -> KafkaOptions:
    return parse_kafka_options({**LEAST, **options}, bounded=True)


def stream(options: Mapping[str, str]) -> KafkaOptions:
    return parse_kafka_options({**LEAST, **options})


@dataclass
class ClusterOfTenRecords:
    """A cluster whose partitions have 10 records from offset 2 on, each with its offset as its time. P2 is empty."""

    committed: dict[TopicPartition, int] = field(default_factory=dict)

    def start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: 0 if tp == P2 else 2 for tp in partitions}

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: 0 if tp == P2 else 12 for tp in partitions}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: max(time, 2) for tp, time in times.items() if time < self.end_offsets([tp])[tp]}

    def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        return {tp: self.committed[tp] for tp in partitions if tp in self.committed}


@pytest.mark.parametrize(
    ("option", "value", "is_told"),
    [
        ("startingTimestamp", "1767225600", True),
        ("startingOffsetsByTimestamp", '{"t":{"0":1767225600,"1":1767225600000}}', True),
        ("endingTimestamp", "1767225600", True),
        ("endingOffsetsByTimestamp", '{"t":{"0":1767225600}}', True),
        ("startingTimestamp", "1767225600000", False),
        ("startingTimestamp", "0", False),
        ("startingOffsetsByTimestamp", "{}", False),
    ],
)
def test_a_time_in_seconds_is_warned_of_once(
    option: str, value: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark takes it as a time in January 1970 and says nothing."""
    offset_options._warn_of_seconds.cache_clear()
    for _ in range(2):
        batch(**{option: value})
    warning = (
        f"Option '{option}' has the time 1767225600, which is 1970-01-21 10:53:45: it is in milliseconds. If you mean "
        "2026-01-01 00:00:00, write 1767225600000."
    )
    assert [record.getMessage() for record in caplog.records] == [warning] * is_told


def test_sk15_times_come_before_offsets() -> None:
    """SK-15: startingTimestamp comes before startingOffsetsByTimestamp, and that before startingOffsets. The
    same holds for endings.
    """
    given = {
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"t":{"0":7}}',
        "startingOffsets": "earliest",
    }
    ends = {name.replace("starting", "ending"): value for name, value in given.items()}
    parsed = batch(**given, **ends | {"endingOffsets": "latest"})
    assert parsed.starting_offsets == AtTimestamp(5, "startingTimestamp")
    assert parsed.stopping_offsets == AtTimestamp(5, "endingTimestamp", True)
    del given["startingTimestamp"], ends["endingTimestamp"]
    parsed = batch(**given, **ends | {"endingOffsets": "latest"})
    assert parsed.starting_offsets == AtTimestamp({P0: 7}, "startingOffsetsByTimestamp")
    assert parsed.stopping_offsets == AtTimestamp({P0: 7}, "endingOffsetsByTimestamp", True)


def test_sk20_a_batch_read_ends_at_latest_by_default() -> None:
    """SK-20, SK-21: a batch read ends at latest by default. The word has any case, and a part of the
    partitions may end at latest.
    """
    assert batch().stopping_offsets == Latest()
    assert batch(endingOffsets="LaTest").stopping_offsets == Latest()
    assert batch(endingOffsets='{"t":{"0":-1,"1":5}}').stopping_offsets == Specific(
        {P0: -1, P1: 5}, "endingOffsets"
    )


@pytest.mark.parametrize(
    ("options", "bounded", "message"),
    [
        ({"startingTimestamp": "noon"}, False, "Expected a single long value"),
        ({"startingTimestamp": "-1"}, False, "Expected a single long value"),
        ({"startingTimestamp": str(2**63)}, False, "Expected a single long value"),
        ({"startingOffsetsByTimestamp": "5"}, False, 'Expected e.g. {"topicA":{"0":123456789'),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, False, 'Expected e.g. {"topicA":{"0":123456789'),
        ({"startingOffsetsByTimestampStrategy": "none"}, False, "Allowed: error, latest."),
        ({"endingTimestamp": "noon"}, True, "Expected a single long value"),
        ({"endingOffsets": "earliest"}, True, "ending offset can't be earliest for batch queries on Kafka"),
        (
            {"endingOffsets": '{"t":{"3":-2}}'},
            True,
            "ending offset for t-3 can't be earliest for batch queries",
        ),
        ({"endingOffsets": "newest"}, True, 'Expected latest, or e.g. {"topicA"'),
        (
            {
                "scan.bounded.mode": "specific-offsets",
                "scan.bounded.specific-offsets": '{"t":{"0":-2}}',
            },
            False,
            'Expected e.g. {"topicA"',
        ),
        ({"scan.bounded.mode": "latest-offset"}, True, "Option 'scan.bounded.mode' is for streams"),
        (
            {"scan.bounded.mode": "latest"},
            False,
            "Allowed: unbounded, latest-offset, timestamp, specific-offsets",
        ),
        ({"scan.bounded.mode": "timestamp"}, False, "timestamp needs option 'scan.bounded.timestamp-millis'"),
        (
            {"scan.bounded.timestamp-millis": "5"},
            False,
            "option 'scan.bounded.mode' is unbounded. Set 'scan.bounded.mode' to timestamp",
        ),
        ({"scan.bounded.mode": "group-offsets"}, False, "needs option 'kafka.group.id'"),
        (
            {"startingOffsets": "group-offsets"},
            False,
            "'startingOffsets' group-offsets needs option 'kafka.group.id'",
        ),
        (
            {"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "0:5"},
            False,
            "partition:0,off",
        ),
        (
            {"startingOffsets": '{"t":{"0":1,"1":1}}', "endingOffsets": '{"t":{"0":1,"2":1}}'},
            True,
            "[MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET]",
        ),
        (
            {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'},
            True,
            "[UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The specified start offset 5",
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "endingOffsetsByTimestamp": '{"t":{"0":4}}'},
            True,
            "start timestamp 5 of option 'startingOffsetsByTimestamp' is greater than the end timestamp 4",
        ),
    ],
)
def test_wrong_offsets_are_refused(options: dict[str, str], bounded: bool, message: str) -> None:
    """SK-16, SK-17, SK-20, SK-40: the error names the wrong value, and says what is allowed."""
    with pytest.raises(OptionError, match=re.escape(message)):
        parse_kafka_options({**LEAST, **options}, bounded=bounded)


@pytest.mark.parametrize(
    ("option", "bounded"),
    [("startingOffsets", False), ("endingOffsets", True), ("scan.bounded.specific-offsets", False)],
)
def test_the_offsets_that_the_page_and_the_error_show_are_accepted(option: str, bounded: bool) -> None:
    """SK-20, SK-40: who copies the offsets gets no other error."""
    given = {**LEAST, "scan.bounded.mode": "specific-offsets"} if option.startswith("scan.") else LEAST
    (allowed,) = (known.kind.words for known in offset_options.OPTIONS if known.name == option)
    with pytest.raises(OptionError) as refused:
        parse_kafka_options({**given, option: "{"}, bounded=bounded)
    for text in (allowed, str(refused.value).partition("Expected")[2]):
        (example,) = re.findall(r"{.*}", text)
        options = parse_kafka_options({**given, option: example}, bounded=bounded)
        found = options.starting_offsets if option == "startingOffsets" else options.stopping_offsets
        assert isinstance(found, Specific)


@pytest.mark.parametrize(
    ("options", "end"),
    [
        ({}, None),
        ({"scan.bounded.mode": "UNBOUNDED"}, None),
        ({"scan.bounded.mode": "latest-offset"}, Latest()),
        (
            {"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": "9"},
            AtTimestamp(9, "scan.bounded.timestamp-millis", True),
        ),
        (
            {
                "scan.bounded.mode": "specific-offsets",
                "scan.bounded.specific-offsets": '{"t":{"0":3,"1":-1}}',
            },
            Specific({P0: 3, P1: -1}, "scan.bounded.specific-offsets"),
        ),
        (
            {
                "scan.bounded.mode": "specific-offsets",
                "scan.bounded.specific-offsets": "partition:0,offset:42;partition:1,offset:300",
            },
            Specific({P0: 42, P1: 300}, "scan.bounded.specific-offsets"),
        ),
        ({"scan.bounded.mode": "group-offsets", "kafka.group.id": "g"}, Committed("g", "scan.bounded.mode")),
    ],
)
def test_options_of_flink_bound_a_stream(options: dict[str, str], end: OffsetsInitializer | None) -> None:
    """A stream is bounded by Flink's options of the same names. It has the splits with which it
    began, without discovery.
    """
    parsed = stream(options)
    assert parsed.stopping_offsets == end
    assert parsed.discovery_interval_ms == (1000 if end is None else None)


@pytest.mark.parametrize("bounded", [False, True])
def test_a_query_begins_at_the_offsets_of_a_group(bounded: bool) -> None:
    """KO-05: ``group-offsets``, by which Flink's tables begin, in any case, also in a batch read."""
    options = {**LEAST, "startingOffsets": " Group-Offsets", "kafka.group.id": "g"}
    parsed = parse_kafka_options(options, bounded=bounded)
    assert parsed.starting_offsets == Committed("g", "startingOffsets")


def test_ko01_earliest_is_a_marker_and_latest_is_an_offset() -> None:
    """KO-01: earliest stays a marker until a split is planned, and latest becomes an offset at once."""
    assert Earliest().starting_offsets([P0, P1], ClusterOfTenRecords()) == {P0: EARLIEST, P1: EARLIEST}
    assert Latest().starting_offsets([P0, P2], ClusterOfTenRecords()) == {P0: 12, P2: 0}
    assert Specific({P0: 5, P1: -1, P2: -2}).starting_offsets([P0, P1, P2], ClusterOfTenRecords()) == {
        P0: 5,
        P1: 12,
        P2: -2,
    }
    assert Latest().stopping_offsets([P0], ClusterOfTenRecords()) == {P0: 12}
    assert Specific({P0: 50, P1: -1}).stopping_offsets([P0, P1], ClusterOfTenRecords()) == {P0: 50, P1: 12}


def test_sk13_a_start_without_a_record_at_its_time_fails_unless_latest() -> None:
    """SK-13, SK-16, KO-03: a start without a record at its time fails unless the strategy is latest. Such an end is
    the end of the partition.
    """
    error, latest = (
        stream({"startingTimestamp": "4", "startingOffsetsByTimestampStrategy": word}).starting_offsets
        for word in ("error", "Latest")
    )
    assert error.starting_offsets([P0, P1], ClusterOfTenRecords()) == {P0: 4, P1: 4}
    with pytest.raises(
        OptionError, match="No offset matched from request of topic-partition t-2 and timestamp 4"
    ):
        error.starting_offsets([P0, P2], ClusterOfTenRecords())
    assert latest.starting_offsets([P0, P2], ClusterOfTenRecords()) == {P0: 4, P2: 0}
    end = batch(endingTimestamp="4").stopping_offsets
    assert end is not None
    assert end.stopping_offsets([P0, P2], ClusterOfTenRecords()) == {P0: 4, P2: 0}


@pytest.mark.parametrize(
    ("initializer", "condition"),
    [
        (Specific({P0: 1, P2: 1}), "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"),
        (
            AtTimestamp({P0: 1, P2: 1}, "startingOffsetsByTimestamp"),
            "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        ),
    ],
)
def test_sk33_offsets_name_exactly_the_partitions_that_are_read(
    initializer: OffsetsInitializer, condition: str
) -> None:
    """SK-33: offsets must name exactly the partitions that are read. The errors have Spark's names."""
    message = rf"\[{condition}\] .* Missing: t-1. Named but not read: t-2."
    for find in (initializer.starting_offsets, initializer.stopping_offsets):
        with pytest.raises(OptionError, match=message):
            find([P0, P1], ClusterOfTenRecords())


def test_the_error_names_the_earliest_offset_only_where_it_is_allowed() -> None:
    """An end at the earliest offset is refused, so the error about ends may not propose it."""
    offsets = Specific({P0: 1}, "endingOffsets")
    for find, words in (
        (offsets.starting_offsets, "(use -1 for latest, -2 for earliest)"),
        (offsets.stopping_offsets, "(use -1 for latest)"),
    ):
        with pytest.raises(OptionError, match=re.escape(words)):
            find([P0, P1], ClusterOfTenRecords())


def test_ko05_a_group_without_committed_offsets_is_an_error() -> None:
    """KO-05, KR-04 adapted: a group without a committed offset is an error, for no reset policy may
    begin somewhere else.
    """
    begin, end = Committed("g", "startingOffsets"), Committed("g", "scan.bounded.mode")
    for committed, find in ((begin, begin.starting_offsets), (end, end.stopping_offsets)):
        assert find([P0], ClusterOfTenRecords({P0: 7})) == {P0: 7}
        words = rf"Consumer group 'g' .* committed no offset for t-1\..* of option '{committed.option}'\."
        with pytest.raises(ConnectorError, match=words):
            find([P0, P1], ClusterOfTenRecords({P0: 7}))


def test_initializers_are_hashable() -> None:
    made = [
        Earliest(),
        Latest(),
        Specific({P0: 1}),
        AtTimestamp({P0: 1}, "x"),
        AtTimestamp(1, "x"),
        Committed("g", "startingOffsets"),
    ]
    assert len(set(made)) == len(made)
