"""A backlog that is read in small micro-batches: the ids of topics are asked for after each plan."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.planning import recent_ends
from flip27_stream.errors import DataLossError, UnreachableError
from flip27_stream.testing import KafkaBroker, wait_until
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kafka.support.kit import source, write_rows

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]
ROWS = 8


@pytest.fixture(autouse=True)
def _ends_stay_recent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_ends, "_RECENT_S", 3600.0)


class TopicsAsked:
    """What a worker thread does when it asks for the ids of topics; the planning thread asks as usual."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.in_worker = 0
        self.of_leaders: list[KafkaClient] = []
        self.released = threading.Event()
        self.released.set()
        self.error: Exception | None = None
        topics, list_offsets = KafkaClient.topics, KafkaClient.list_offsets

        def asked(client: KafkaClient, *given: Any, **more: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                self.in_worker += 1
                assert self.released.wait(30)
                if self.error is not None:
                    raise self.error
            return topics(client, *given, **more)

        def of_leaders(client: KafkaClient, *given: Any, **more: Any) -> Any:
            self.of_leaders.append(client)
            return list_offsets(client, *given, **more)

        monkeypatch.setattr(KafkaClient, "topics", asked)
        monkeypatch.setattr(KafkaClient, "list_offsets", of_leaders)


def backlog(broker: KafkaBroker, name: str, fail: str = "true") -> SourceQuery:
    """Returns an AvailableNow run over a topic of one partition with 8 rows; each micro-batch may have 2."""
    write_rows(broker, name, ROWS)
    options = {"subscribe": name, "failOnDataLoss": fail}
    return SourceQuery(
        source(broker, options, startingOffsets="earliest", maxOffsetsPerTrigger="2"), available_now=True
    )


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_is_created_again_fails_the_run_before_its_records_are_read(
    broker: KafkaBroker, topic: MakeTopic, fail: str
) -> None:
    """SK-02: the plan knows enough records, and has not waited for the ids of topics."""
    name = topic()
    with backlog(broker, name, fail) as query:
        assert len(query.step() + query.step()) == 4
        broker.delete_topic(name)
        broker.create_topic(name)
        write_rows(broker, name, ROWS)
        batch = query.next_batch()
        assert batch is not None

        def refused() -> bool:
            try:
                query.tasks(*batch)
            except DataLossError as error:
                return "have been lost during running query with Trigger.AvailableNow" in str(error)
            return False

        wait_until(refused, "the batch to be refused")


def test_plans_go_on_while_no_broker_gives_the_ids(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request at a time is on its way, and no plan waits for it."""
    name = topic()
    with backlog(broker, name) as query:
        assert len(query.step()) == 2
        asked = TopicsAsked(monkeypatch)
        asked.released.clear()
        assert len(query.step()) == 2
        wait_until(lambda: asked.in_worker == 1, "the ids to be asked for")
        assert len(query.step()) == 2
        asked.released.set()
        assert len(query.run(2)) == 2
        assert asked.in_worker == 1


def test_ids_that_no_broker_gave_are_asked_for_by_the_next_plan(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = topic()
    with backlog(broker, name) as query:
        assert len(query.step()) == 2
        asked = TopicsAsked(monkeypatch)
        asked.error = UnreachableError("No broker is there.")
        batch = query.wait_for_batch()
        assert not asked.of_leaders

        def noticed() -> bool:
            query.tasks(*batch)
            return "ids of topics failed, and is repeated: No broker is there." in caplog.text

        wait_until(noticed, "the warning")
        query.offset = batch[1]
        assert len(query.step()) == 2
        assert len(asked.of_leaders) == 1
