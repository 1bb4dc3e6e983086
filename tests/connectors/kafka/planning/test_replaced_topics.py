"""A topic is deleted, or also created again, while a query reads it. Options of the query say how to go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flip27_stream.api import SplitRange
from flip27_stream.connectors.hybrid import ExactSeam, HybridSource, Overlap
from flip27_stream.connectors.kafka.planning import log_ranges
from flip27_stream.errors import DataLossError
from flip27_stream.testing import KafkaBroker, wait_until
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kafka.support.kit import running, source, write_rows

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]
GO_ON = {"startingOffsets": "earliest", "failOnDataLoss": "false"}


@pytest.mark.parametrize("seam", ["exact", "overlap"])
@pytest.mark.parametrize("restart", [True, False])
def test_rows_of_a_topic_created_again_are_not_those_of_the_history(
    broker: KafkaBroker, topic: MakeTopic, seam: str, restart: bool
) -> None:
    """SK-24: the rows that the history has are left out of the log that was copied, and not out of its successor."""
    old, live = topic(), topic()
    write_rows(broker, old, 4)
    write_rows(broker, live, 6)
    split = f"{live}-{{partition}}"
    rule: dict[str, Any] = (
        {"seam": ExactSeam(split)} if seam == "exact" else {"overlap": Overlap(60_000, split)}
    )
    history = source(broker, {**GO_ON, "scan.bounded.mode": "latest-offset"}, subscribe=old)
    then = source(broker, GO_ON, subscribe=live)
    builder = HybridSource.builder(history, event_time="timestamp").add_source(then, **rule)
    hybrid = builder.build()
    with SourceQuery(hybrid) as query:
        assert offsets(query.run(6), live) == [4, 5]
        broker.delete_topic(live)
        broker.create_topic(live)
        write_rows(broker, live, 3)
        assert offsets(query.run(3), live) == [0, 1, 2]
        if not restart:
            write_rows(broker, live, 3)
            assert offsets(query.run(3), live) == [3, 4, 5]
    if restart:
        write_rows(broker, live, 3)
        with SourceQuery(hybrid, query.offset) as after:
            assert offsets(after.run(3), live) == [3, 4, 5]


def test_rows_of_a_topic_created_again_wait_for_the_minimum_of_the_batch(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    """SK-06, SK-24: the plan that finds the new topic makes a batch, also of fewer rows than the minimum. Otherwise the
    next plan would look for the old offset in the new topic.
    """
    name = topic()
    write_rows(broker, name, 6)
    with SourceQuery(source(broker, GO_ON, subscribe=name, minOffsetsPerTrigger="5")) as query:
        assert offsets(query.run(6), name) == [0, 1, 2, 3, 4, 5]
        broker.delete_topic(name)
        broker.create_topic(name)
        write_rows(broker, name, 3)
        assert offsets(query.run(3), name) == [0, 1, 2]


def offsets(rows: list[dict[str, Any]], topic: str) -> list[int]:
    return sorted(row["offset"] for row in rows if row["topic"] == topic)


@pytest.mark.parametrize(
    "options", [{"scan.topic-partition-discovery.interval": "0"}, {"scan.bounded.mode": "latest-offset"}]
)
def test_a_deleted_topic_is_noticed_though_nothing_is_to_be_read(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    """SK-24, SK-25: without further discoveries, a deleted topic would be one without an answer, and after some minutes
    an error of the broker, which failOnDataLoss has no influence on.
    """
    monkeypatch.setattr(log_ranges, "_GONE_AFTER_S", 0.0)
    name = topic()
    write_rows(broker, name, 3)
    made = {"startingOffsets": "earliest", "subscribe": name, **options}
    with (
        running(source(broker, made, failOnDataLoss="false")) as lenient,
        running(source(broker, made)) as strict,
    ):
        for query in (lenient, strict):
            assert query.move_to_ends()[f"{name}-0"].end == 3
        broker.delete_topic(name)
        gone = SplitRange(3, 3, drained=False, final=True)
        wait_until(lambda: lenient.ranges() == {f"{name}-0": gone}, "the deleted topic to be finished")
        with pytest.raises(DataLossError, match="available nothing, the partition was deleted"):
            wait_until(lambda: strict.ranges() and False, "the deleted topic to be noticed")
