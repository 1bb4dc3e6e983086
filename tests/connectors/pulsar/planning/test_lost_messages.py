"""Messages that were trimmed, and topics that were deleted, on a real server: what is lost, or may be, is told."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.errors import DataLossError, MissingTopicError
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.testing import PulsarServer, wait_until
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.testing.task_rows import TaskRows
from tests.connectors.pulsar.support.kit import QUICK, MessageWriter, numbers, source_of
from watermark_alignment.options import AlignmentOptions

pytestmark = pytest.mark.jvm

FULL = "persistent://public/default/"


def test_trimmed_ledgers_are_data_loss(
    pulsar_server: PulsarServer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Pulsar's reader goes on silently at the first message that is left. The source compares
    ids, and finds the loss.
    """
    pulsar_server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    pulsar_server.put(partition, numbers(0, 10))
    source = source_of(pulsar_server, topic, maxRecordsPerTrigger="4")
    with SourceQuery(source) as query:
        assert len(query.step()) == 4
        planned, offset = query.wait_for_batch(), query.offset
    pulsar_server.truncate(partition)
    pulsar_server.put(partition, numbers(20, 3))
    with SourceQuery(source, offset) as query:
        with pytest.raises(DataLossError, match=rf"{partition} are lost, or may be.*'failOnDataLoss'"):
            query.run(3)
        with pytest.raises(DataLossError, match="were lost while they were read"):
            query.read(query.tasks(*planned)[0])
    tolerant = source_of(pulsar_server, topic, failOnDataLoss="false")
    with SourceQuery(tolerant, offset) as query, caplog.at_level(logging.WARNING):
        assert [row["value"] for row in query.run(3)] == numbers(20, 3)
    assert "are lost, or may be" in caplog.text


def test_ledgers_that_are_trimmed_while_a_task_reads_are_data_loss(
    pulsar_server: PulsarServer, topic: str
) -> None:
    """The broker moves an open reader silently to the first ledger that is left, which is within the range."""
    pulsar_server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    for ledger in range(3):
        pulsar_server.put(partition, [bytes([ledger]) * (1 << 20)] * 6)
        if ledger < 2:
            pulsar_server.unload(partition)
    retention = "namespaces/public/default/retention"
    source = source_of(pulsar_server, topic, **{"pulsar.reader.receiverQueueSize": "1"})
    with SourceQuery(source) as query:
        ((task,),) = query.tasks(*query.wait_for_batch())
        output = TaskRows(source.schema, [task])
        polls = query.poll([task], output)
        next(polls)
        assert 0 < len(output.rows) < 6
        kept = pulsar_server.admin("GET", retention)
        pulsar_server.admin("POST", retention, {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})

        def is_trimmed() -> bool:
            # A trim removes nothing before the topic has the new retention.
            pulsar_server.admin("POST", f"persistent/public/default/{partition}/trim")
            stats = pulsar_server.admin("GET", f"persistent/public/default/{partition}/internalStats")
            return len(stats["ledgers"]) == 1

        try:
            wait_until(is_trimmed, "ledgers to be trimmed")
        finally:
            pulsar_server.admin("POST", retention, kept)
        with pytest.raises(DataLossError, match="were lost while they were read"):
            for _ in polls:
                pass


def test_trimming_between_two_looks_is_warned_of(
    pulsar_server: PulsarServer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A query that runs has read all messages. Nobody can see those that come and go before it looks again: the ids of
    later messages are the same if there were none.
    """
    pulsar_server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    pulsar_server.put(partition, numbers(0, 4))
    with SourceQuery(source_of(pulsar_server, topic)) as query, caplog.at_level(logging.WARNING):
        rows = query.run(4)
        assert query.step() == []
        assert not caplog.text
        pulsar_server.put(partition, numbers(4, 4))
        pulsar_server.truncate(partition)
        pulsar_server.put(partition, numbers(8, 4))
        rows += query.run(4)
    assert [row["value"] for row in rows] == numbers(0, 4) + numbers(8, 4)
    assert caplog.text.count("trimmed are lost") == 1


def test_trimming_read_messages_is_no_loss(
    pulsar_server: PulsarServer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A running query has seen that nothing followed, also if it has not looked since it read the last message. It
    warns once of each trimmed ledger. After a restart a ledger that still exists proves it.
    """
    pulsar_server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    pulsar_server.put(partition, numbers(0, 4))
    source = source_of(pulsar_server, topic)
    with SourceQuery(source) as query, caplog.at_level(logging.WARNING):
        rows = query.run(4)
        pulsar_server.truncate(partition)
        assert [query.step() for _ in range(3)] == [[], [], []]
        assert caplog.text.count("trimmed are lost") == 1
        pulsar_server.put(partition, numbers(4, 4))
        rows += query.step()
        pulsar_server.truncate(partition)
        pulsar_server.put(partition, numbers(8, 4))
        rows += query.run(4)
        assert caplog.text.count("trimmed are lost") == 2
        offset = query.offset
    pulsar_server.unload(partition)
    pulsar_server.put(partition, numbers(12, 4))
    with SourceQuery(source, offset) as query:
        rows += query.run(4)
    assert [row["value"] for row in rows] == numbers(0, 16)
    assert caplog.text.count("trimmed are lost") == 2


def test_a_restart_without_the_ledger_is_data_loss(
    pulsar_server: PulsarServer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No message is left, but nobody can say whether the ledger had more."""
    pulsar_server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    pulsar_server.put(partition, numbers(0, 4))
    with SourceQuery(source_of(pulsar_server, topic)) as query:
        query.run(4)
        offset = query.offset
    pulsar_server.put(partition, numbers(4, 4))
    pulsar_server.truncate(partition)
    with (
        SourceQuery(source_of(pulsar_server, topic), offset) as query,
        pytest.raises(DataLossError, match=rf"{partition} are lost, or may be.*no message is left"),
    ):
        query.step()
    tolerant = source_of(pulsar_server, topic, failOnDataLoss="false")
    with SourceQuery(tolerant, offset) as query, caplog.at_level(logging.WARNING):
        assert [query.step() for _ in range(3)] == [[], [], []]
        pulsar_server.put(partition, numbers(8, 4))
        assert [row["value"] for row in query.run(4)] == numbers(8, 4)
    assert caplog.text.count("are lost, or may be") == 1


@pytest.mark.parametrize("comes", [0, 2])
def test_the_server_does_not_tell_a_ledger_that_was_read_from_one_that_had_more(
    pulsar_server: PulsarServer, topic: str, comes: int
) -> None:
    """All that pulsar-client or the admin API can ask has the same answer, once a message came or the topic was loaded.

    So a query that is started again fails, though all messages of the trimmed ledger may have been read.
    """
    answers = []
    for unread in (0, 3):
        name = f"{topic}-{unread}"
        pulsar_server.create_topic(name, None)
        ((ledger, entry, _),) = pulsar_server.put(name, [b"read"])
        pulsar_server.put(name, [b"unread"] * unread)
        pulsar_server.truncate(name)
        pulsar_server.put(name, [b"new"] * comes)
        if not comes:
            pulsar_server.unload(name)
        answers.append(told_of(pulsar_server, name, ledger, entry))
    assert answers[0] == answers[1]


def told_of(server: PulsarServer, topic: str, ledger: int, entry: int) -> dict[str, Any]:
    """Returns what the server says of a topic. Of a ledger it is only whether it came after ``ledger``, which was
    trimmed: the servers number ledgers of all topics together.
    """
    import pulsar

    def told(message_id: Any) -> tuple[bool, int, int]:
        return message_id.ledger_id() > ledger, message_id.entry_id(), message_id.batch_index()

    consumer = server.client.subscribe(FULL + topic, "asks")
    last = consumer.get_last_message_id()
    consumer.unsubscribe()
    wanted = pulsar.MessageId(-1, ledger, entry + 1, -1)
    reader = server.client.create_reader(FULL + topic, wanted, start_message_id_inclusive=True)
    found = []
    while reader.has_message_available():
        found.append(told(reader.read_next(5000).message_id()))
    reader.close()
    stats = server.admin("GET", f"persistent/public/default/{topic}/internalStats")
    at_ledger, at_entry = map(int, stats["lastConfirmedEntry"].split(":"))
    return {
        "last": told(last) if last.entry_id() >= 0 else None,
        "messages": found,
        "ledgers": [(row["ledgerId"] > ledger, row["entries"]) for row in stats["ledgers"]],
        "confirmed": (at_ledger > ledger, at_entry),
        **{name: stats[name] for name in ("entriesAddedCounter", "numberOfEntries", "currentLedgerEntries")},
    }


def test_a_position_behind_all_messages_is_data_loss(pulsar_server: PulsarServer, topic: str) -> None:
    """Ids only grow, so a topic whose ids are below the offset has other messages than the query has read."""
    pulsar_server.create_topic(topic, 1)
    ((ledger, _, _),) = pulsar_server.put(f"{topic}-partition-0", [b"other"])
    start = f'{{"{topic}-partition-0": "{ledger + 1000}:5"}}'
    with (
        SourceQuery(source_of(pulsar_server, topic, startingOffsets=start)) as query,
        pytest.raises(DataLossError, match=f"the last existing message is at {ledger}:0:0, before that"),
    ):
        query.step()


def test_a_recreated_topic_is_data_loss(pulsar_server: PulsarServer, topic: str) -> None:
    pulsar_server.create_topic(topic, 2)
    writer = MessageWriter(pulsar_server, topic, 2)
    writer.put()
    source = source_of(pulsar_server, topic)
    with SourceQuery(source) as query:
        query.run(writer.count)
        offset = query.offset
    pulsar_server.delete_topic(topic)
    pulsar_server.create_topic(topic, 1)
    pulsar_server.put(f"{topic}-partition-0", [b"new"])
    with (
        SourceQuery(source, offset) as query,
        pytest.raises(DataLossError, match=f"{topic}-partition-1 do not exist any more"),
    ):
        query.run(1)
    tolerant = source_of(pulsar_server, topic, failOnDataLoss="false")
    with SourceQuery(tolerant, offset) as query:
        assert [row["value"] for row in query.run(1)] == [b"new"]


def two_topics(server: PulsarServer, prefix: str) -> tuple[str, str, dict[str, str]]:
    """Creates two topics, each with its name as a message. Returns their names, and the options that read both."""
    names = f"{prefix}-a", f"{prefix}-b"
    for name in names:
        server.create_topic(name, 1)
        server.put(f"{name}-partition-0", [name.encode()])
    pattern = f"persistent://public/default/{prefix}-.*"
    return *names, {**server.options, **QUICK, "admin.url": server.admin_url, "topicsPattern": pattern}


def test_a_deleted_topic_of_a_pattern_is_data_loss(
    pulsar_server: PulsarServer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A task that reads a deleted topic fails, or goes on with the other topics if ``failOnDataLoss`` is false. Then
    the next plans go on, too.
    """
    deleted, other, options = two_topics(pulsar_server, topic)
    tolerant = PulsarSource({**options, "failOnDataLoss": "false"})
    with SourceQuery(tolerant) as query, caplog.at_level(logging.WARNING):
        planned = query.wait_for_batch()
        pulsar_server.delete_topic(deleted)
        with SourceQuery(PulsarSource(options)) as failing, pytest.raises(DataLossError, match=deleted):
            failing.read_all(*planned)
        rows, query.offset = query.read_all(*planned), planned[1]
        pulsar_server.put(f"{other}-partition-0", [b"later"])
        rows += query.run(1)

        def is_retired() -> bool:
            query.step()
            return f"{FULL}{deleted}-partition-0" not in query.offset["splits"]

        wait_until(is_retired, "the deleted topic to leave the offset")
    assert [row["value"] for row in rows] == [other.encode(), b"later"]
    assert f"{deleted}-partition-0" in caplog.text


def test_a_deleted_topic_of_a_pattern_that_is_listed_once_holds_no_other_topic(
    pulsar_server: PulsarServer, topic: str, tmp_path: Path
) -> None:
    """The source lists the topics once, and no split becomes idle, so nothing else ends the wait of an aligned query
    for the deleted topic.
    """
    deleted, other, options = two_topics(pulsar_server, topic)
    options |= {"partitionDiscoveryInterval": "0", "failOnDataLoss": "false"}
    alignment = AlignmentOptions.parse(
        {
            "scan.watermark.alignment.group": "g",
            "scan.watermark.alignment.max-drift": "0 s",
            "scan.watermark.alignment.table": str(tmp_path / "table"),
            "scan.watermark.idle-timeout": "0 s",
        }
    )
    source = PulsarSource(options)
    strategy = WatermarkStrategy(timestamp_assigner=timestamp_assigner("__publishTime", source.schema))
    with SourceQuery(source, strategy=strategy, alignment=alignment) as query:
        rows = query.run(1)
        pulsar_server.delete_topic(deleted)
        pulsar_server.put(f"{other}-partition-0", [b"later"])
        rows += query.run(3 - len(rows))
    assert sorted(row["value"] for row in rows) == sorted([deleted.encode(), other.encode(), b"later"])


def test_a_missing_topic_is_named(pulsar_server: PulsarServer, topic: str) -> None:
    source = source_of(pulsar_server, topic)
    with SourceQuery(source) as query, pytest.raises(MissingTopicError, match=topic):
        query.run(1)
