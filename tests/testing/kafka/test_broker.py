"""Tests of the test kit's Kafka broker with a real client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from flip27_stream.errors import ConnectorError
from flip27_stream.testing import KafkaBroker, wait_until
from flip27_stream.testing.kafka.node import answers_api_versions
from tests.spark.support.processes import alive
from tests.testing.support.killed_parents import killed_parent
from tests.testing.support.reading import read

pytestmark = pytest.mark.jvm


def port_of(broker: KafkaBroker) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


def test_records_come_back_as_written(broker: KafkaBroker, topic: Callable[..., str]) -> None:
    name = topic(2)
    broker.write(name, [(0, 5, b"k", b"v"), (1, 2**42, b"", None, [("h", b"x")])])
    first, second = sorted(read(broker.bootstrap_servers, name, 2), key=lambda record: int(record.partition))
    assert (first.timestamp, first.key, first.value, list(first.headers)) == (5, b"k", b"v", [])
    headers = list(second.headers)
    assert (second.timestamp, second.key, second.value, headers) == (2**42, b"", None, [("h", b"x")])


def test_topics_are_created_with_their_config_and_deleted(broker: KafkaBroker) -> None:
    broker.create_topic("short-lived", 3, {"cleanup.policy": "compact"})
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    try:
        assert consumer.partitions_for_topic("short-lived") == {0, 1, 2}
        broker.delete_topic("short-lived")
        assert "short-lived" not in consumer.topics()
    finally:
        consumer.close()


def test_an_aborted_transaction_stays_hidden(broker: KafkaBroker, topic: Callable[..., str]) -> None:
    name = topic()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=name)
    try:
        producer.init_transactions()
        for value, finish in ((b"no", producer.abort_transaction), (b"yes", producer.commit_transaction)):
            producer.begin_transaction()
            producer.send(name, value=value).get(timeout=30)
            finish()
    finally:
        producer.close()
    assert [record.value for record in read(broker.bootstrap_servers, name)] == [b"no", b"yes"]
    committed = read(broker.bootstrap_servers, name, isolation="read_committed")
    assert [(record.offset, record.value) for record in committed] == [(2, b"yes")]


def test_a_broker_can_be_paused_killed_and_restarted_and_stops_when_the_body_raises() -> None:
    with pytest.raises(ZeroDivisionError), KafkaBroker() as broker:  # noqa: PT012
        address, pid, home = broker.bootstrap_servers, broker.pid, broker._home
        broker.create_topic("kept")
        broker.write("kept", [(0, 1, None, b"before")])

        broker.pause()
        assert not answers_api_versions("127.0.0.1", port_of(broker), timeout=0.3)
        broker.resume()
        wait_until(lambda: answers_api_versions("127.0.0.1", port_of(broker)), "the resumed broker")

        broker.kill()
        assert not alive(pid)
        with pytest.raises(ConnectorError, match="not running"):
            _ = broker.pid

        broker.restart()
        assert broker.bootstrap_servers == address
        assert broker.pid != pid
        broker.write("kept", [(0, 2, None, b"after")])
        assert [record.value for record in read(address, "kept")] == [b"before", b"after"]
        pid = broker.pid
        _ = 1 // 0
    assert not alive(pid)
    assert home is not None
    assert not home.exists()


def test_a_broker_that_was_not_started_makes_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").touch()
    broker = KafkaBroker()
    broker.stop()
    assert (tmp_path / "mine").exists()
    with pytest.raises(ConnectorError, match="was not started"):
        broker.restart()


def test_a_broker_that_cannot_start_shows_its_log() -> None:
    with pytest.raises(ConnectorError, match=r"num\.io\.threads"), KafkaBroker({"num.io.threads": "none"}):
        pass


def test_a_broker_dies_with_the_process_that_started_it() -> None:
    script = """if True:
        import sys
        from flip27_stream.testing import KafkaBroker, wait_until
        with KafkaBroker() as broker:
            print(broker.pid, broker._home, flush=True)
            sys.stdin.read()
    """
    with killed_parent(script) as (pid, home):
        assert alive(int(pid))
    wait_until(lambda: not alive(int(pid)) and not Path(home).exists(), "the broker's end")
