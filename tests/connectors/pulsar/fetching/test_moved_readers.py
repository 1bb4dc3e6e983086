"""A task reads all messages of its range if the broker moves its reader forward, as when a backlog is cleared."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from flip27_stream.api import InputStatus
from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.connectors.pulsar.fetching import reader
from flip27_stream.connectors.pulsar.fetching.gaps import count_without_gap, existing
from flip27_stream.connectors.pulsar.fetching.reader import PulsarSourceReader
from flip27_stream.connectors.pulsar.positions import EARLIEST, behind_entry, position_at, position_of
from flip27_stream.errors import DataLossError, MissingTopicError
from flip27_stream.spark.execution.task import TaskContext
from flip27_stream.testing import PulsarServer
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.testing.task_rows import TaskRows
from tests.connectors.pulsar.support.kit import source_of
from tests.connectors.pulsar.support.memory_partition import SPLIT, MemoryPartition, MessageAsId

COUNT = 1000


@pytest.mark.jvm
@pytest.mark.parametrize("goes_on", [True, False], ids=["with a later message", "at the end"])
def test_a_backlog_that_is_cleared_while_a_task_reads_is_read(
    pulsar_server: PulsarServer,
    topic: str,
    goes_on: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Behind the place to which the reader is moved there is a message outside of the range, or none."""
    monkeypatch.setattr(reader, "_SILENT_TURNS", 1)
    monkeypatch.setattr(reader, "_ROWS", 300)
    pulsar_server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    values = [b"%06d" % number + bytes(3000) for number in range(COUNT)]
    pulsar_server.put(partition, values)
    with SourceQuery(source_of(pulsar_server, topic, **{"pulsar.reader.receiverQueueSize": "100"})) as query:
        ((task,),) = query.tasks(*query.wait_for_batch())
        output = TaskRows(query.source.schema, [task])
        polls = query.poll([task], output)
        next(polls)
        assert len(output.rows) == 300
        pulsar_server.admin("POST", "namespaces/public/default/clearBacklog")
        if goes_on:
            pulsar_server.put(partition, [b"later"])
        with caplog.at_level(logging.WARNING):
            for _ in polls:
                pass
    assert [row["value"] for row in output.rows] == values
    assert ("has moved a reader" in caplog.text) is goes_on


@pytest.mark.parametrize(
    ("positions", "before", "count"),
    [
        ([(7, 3, 1), (7, 3, 2), (7, 4, 0), (7, 5, 0)], position_at(7, 3, 0), 4),
        ([(7, 4, 0)], behind_entry(position_at(7, 3)), 1),
        ([(7, 4, 0), (7, 6, 0)], position_at(7, 3), 1),
        ([(7, 4, 1)], position_at(7, 3), 0),
        ([(8, 0, 0)], position_at(7, 3), 0),
        ([(7, 0, 0)], EARLIEST - 1, 0),
    ],
)
def test_neighbouring_entries_have_no_gap(
    positions: Sequence[tuple[int, int, int]], before: int, count: int
) -> None:
    assert count_without_gap([position_at(*p) for p in positions], before) == count


@dataclass
class PagedPartition(MemoryPartition):
    """A partition that returns three messages at once, as one with large messages.

    Attributes:
        count: The number of messages that were returned.
        moved: The messages that the first open reader returns.
    """

    count: int = 0
    moved: list[MessageAsId] = field(default_factory=list)

    def read(self, topic: str, position: int, most: int, until: int | None = None) -> Sequence[MessageAsId]:
        found = super().read(topic, position, 3, until)
        self.count += len(found)
        return found

    def open(self, topic: str, position: int, queue: int) -> Any:
        messages = iter(self.moved or super().read(topic, position, 1 << 62))
        self.moved = []
        return SimpleNamespace(read_next=lambda wait_ms: next(messages))


def test_existing_messages_are_found_in_several_pages() -> None:
    entries = [0, 1, 2, 5, 6, 9, 11, 12]
    partition = PagedPartition([MessageAsId(7, entry) for entry in entries])
    found = existing(partition, "clicks", position_at(7, 1), position_at(7, 11))  # type: ignore[arg-type]
    assert list(found) == [position_at(7, entry) for entry in entries[1:-1]]


def rows_in(partition: MemoryPartition, **options: str) -> int:
    """Returns the number of rows that a task reads of all messages of a partition."""
    source = PulsarSource({"service.url": "pulsar://localhost:1", "topic": "clicks", **options})
    task = source.create_reader(TaskContext(0))
    assert isinstance(task, PulsarSourceReader)
    task._client = partition  # type: ignore[assignment]
    first, last = (position_of(partition.messages[i]) for i in (0, -1))
    task.add_splits([SPLIT.between(first, last + 1)])
    output = TaskRows(source.schema)
    while task.poll_next(output) is not InputStatus.END_OF_INPUT:
        pass
    return len(output.rows)


def test_a_gap_is_found_at_its_first_message() -> None:
    """A reader can be moved over millions of messages. They are read again by the task, and not to find the gap."""
    messages = [MessageAsId(7, entry) for entry in range(1000)]
    partition = PagedPartition(messages, moved=[messages[0], messages[-1]])
    assert rows_in(partition) == 1000
    assert partition.count <= 3


class DeletedTopic(PagedPartition):
    """A topic that is deleted while a reader still has messages."""

    def read(self, topic: str, position: int, most: int, until: int | None = None) -> Sequence[MessageAsId]:
        raise MissingTopicError("it does not exist")


def test_a_topic_that_is_deleted_before_a_gap_is_checked_is_data_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two ledgers are a gap, too. The messages that came are rows."""
    messages = [MessageAsId(7, 0), MessageAsId(8, 0), MessageAsId(8, 1)]
    with pytest.raises(DataLossError, match="the topic does not exist any more"):
        rows_in(DeletedTopic(messages))
    assert rows_in(DeletedTopic(messages), failOnDataLoss="false") == 3
    assert "the topic does not exist any more" in caplog.text
