"""The rights that ``docs/security.md`` lists are enough at a real broker, and each of them is needed."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.client.client import ConnectionOptions, KafkaClient
from flip27_stream.connectors.kafka.planning.group_coordinator import GroupCoordinator
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import ConnectorError
from flip27_stream.testing import KafkaBroker
from tests.connectors.kafka.support.kit import running

pytestmark = [
    pytest.mark.jvm,
    # kafka-python forgets sockets of connections that were refused, and leaves them to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning"),
]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaBroker]:
    """A broker that allows nothing without an ACL to a user who logged in, and everything to others."""
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with KafkaBroker(rules, listeners=["SASL_PLAINTEXT"]) as broker:
        yield broker


@pytest.fixture
def topic(guarded: KafkaBroker) -> str:
    """The name of a topic with three records."""
    name = f"guarded-{next(_numbers)}"
    guarded.create_topic(name)
    guarded.write(name, [(0, 1000 * i, None, b"v") for i in range(3)])
    return name


def allow(broker: KafkaBroker, kind: ResourceType, name: str, operation: ACLOperation) -> None:
    who = f"User:{broker.secure.user}"
    rule = ACL(who, "*", operation, ACLPermissionType.ALLOW, ResourcePattern(kind, name))
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        assert admin.create_acls([rule])["failed"] == []


def source(broker: KafkaBroker, options: dict[str, str], *, logged_in: bool = True) -> KafkaSource:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {
        "kafka.bootstrap.servers": broker.secure.bootstrap_servers("SASL_PLAINTEXT"),
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="{broker.secure.user}" '
        f'password="{broker.secure.password}";',
    }
    plain = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    return KafkaSource({**(login if logged_in else plain), "startingOffsets": "earliest", **options})


def read_all(source: KafkaSource) -> list[str]:
    """Reads all rows, and returns the topic of each. All rows count as processed, so offsets are committed
    if the options say so.
    """
    with running(source) as query:
        rows: list[str] = query.read(query.move_to_ends()).column("topic")
        query.enumerator.notify_checkpoint_complete({s.split_id: p or 0 for s, p in query.positions.items()})
    return rows


def committed(broker: KafkaBroker, group: str, topic: str) -> dict[TopicPartition, int]:
    with closing(KafkaClient(ConnectionOptions(broker.bootstrap_servers))) as client:
        return GroupCoordinator(client, group).committed_offsets([TopicPartition(topic, 0)])


def test_reading_needs_read_on_the_topic(guarded: KafkaBroker, topic: str) -> None:
    reading = source(guarded, {"subscribe": topic})
    with pytest.raises(ConnectorError, match=rf"refused metadata of topic '{topic}': TopicAuthorization"):
        read_all(reading)
    allow(guarded, ResourceType.TOPIC, topic, ACLOperation.DESCRIBE)
    with pytest.raises(ConnectorError, match=r"refused a fetch of .*TopicAuthorization"):
        read_all(reading)
    allow(guarded, ResourceType.TOPIC, topic, ACLOperation.READ)

    assert read_all(reading) == [topic] * 3


def test_a_pattern_leaves_out_topics_without_the_right_to_describe(
    guarded: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """If the pattern matches no other topic, a warning names the topics that this user sees."""
    other = f"{topic}-other"
    guarded.create_topic(other)
    allow(guarded, ResourceType.TOPIC, topic, ACLOperation.READ)

    assert read_all(source(guarded, {"subscribePattern": f"{topic}.*"})) == [topic] * 3
    assert "No topic matches" not in caplog.text
    assert read_all(source(guarded, {"subscribePattern": f"{topic}-.*"})) == []
    (warning,) = [message for message in caplog.messages if message.startswith("No topic matches")]
    assert f"option 'subscribePattern' ({topic}-.*), so nothing is read." in warning
    assert other not in warning


def test_committing_needs_read_on_the_group(
    guarded: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    allow(guarded, ResourceType.TOPIC, topic, ACLOperation.READ)
    group = f"group-{topic}"
    options = {"subscribe": topic, "kafka.group.id": group, "scan.commit-offsets": "true"}
    with caplog.at_level(logging.WARNING):
        assert read_all(source(guarded, options)) == [topic] * 3
    assert f"not committed to consumer group '{group}'" in caplog.text
    assert committed(guarded, group, topic) == {}
    allow(guarded, ResourceType.GROUP, group, ACLOperation.READ)

    assert read_all(source(guarded, options)) == [topic] * 3
    assert committed(guarded, group, topic) == {TopicPartition(topic, 0): 3}


def test_ending_where_a_group_is_needs_describe_on_the_group(guarded: KafkaBroker, topic: str) -> None:
    allow(guarded, ResourceType.TOPIC, topic, ACLOperation.READ)
    group = {"kafka.group.id": f"group-{topic}"}
    commits = {"subscribe": topic, **group, "scan.commit-offsets": "true"}
    read_all(source(guarded, commits, logged_in=False))
    guarded.write(topic, [(0, 9000, None, b"later")])
    bounded = source(guarded, {"subscribe": topic, **group, "scan.bounded.mode": "group-offsets"})
    with pytest.raises(ConnectorError, match="GroupAuthorization"):
        read_all(bounded)
    allow(guarded, ResourceType.GROUP, group["kafka.group.id"], ACLOperation.DESCRIBE)

    assert read_all(bounded) == [topic] * 3
