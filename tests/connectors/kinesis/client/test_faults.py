"""Faults of the service: throttling, iterators that expire, denial, silence, and records and
streams that are deleted.
"""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.connectors.kinesis.client.shard_limits import ShardLimits
from flip27_stream.connectors.kinesis.options.source_options import parse_kinesis_options
from flip27_stream.errors import (
    AuthenticationError,
    DataLossError,
    MissingTopicError,
    OptionError,
    UnreachableError,
)
from flip27_stream.testing import BlackHole, FaultyNetwork, KinesisServer, wait_until
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kinesis.support.answers import answering, error
from tests.connectors.kinesis.support.kit import QUICK, data_of, numbered, source_of

pytestmark = pytest.mark.node


def connection_of(server: KinesisServer, **more: str) -> Any:
    return parse_kinesis_options({**server.options, "streamName": "x", **more}).connection


@pytest.fixture
def filled(kinesis: KinesisServer, stream: str) -> KinesisServer:
    kinesis.create_stream(stream, 2)
    kinesis.put(stream, numbered(0, 40, 2))
    return kinesis


EXPECTED = {b"%d" % i for i in range(40)}


@pytest.mark.parametrize(
    ("operation", "code", "status"),
    [
        ("GetRecords", "ProvisionedThroughputExceededException", 400),
        ("GetShardIterator", "ProvisionedThroughputExceededException", 400),
        ("ListShards", "LimitExceededException", 400),
        ("GetRecords", "KMSThrottlingException", 400),
        ("GetRecords", "InternalFailure", 500),
        ("GetRecords", "ExpiredIteratorException", 400),
    ],
)
def test_errors_that_pass_lose_no_record(
    filled: KinesisServer, stream: str, operation: str, code: str, status: int
) -> None:
    """The service refuses every second call. Planner and readers wait a random time, and repeat the call."""
    turns = itertools.count()
    source = source_of(filled, stream)
    with (
        answering(
            connection_of(filled), operation, lambda _: None if next(turns) % 2 else error(code, status)
        ) as given,
        SourceQuery(source) as query,
    ):
        assert set(data_of(query.run(40))) == EXPECTED
    assert given


def test_endless_throttling_fails_with_a_remedy(filled: KinesisServer, stream: str) -> None:
    connection = connection_of(filled, requestTimeout="600 ms")
    throttled = error("ProvisionedThroughputExceededException")
    with (
        answering(connection, "GetRecords", lambda _: throttled),
        SourceQuery(source_of(filled, stream)) as query,
        SourceQuery(source_of(filled, stream, requestTimeout="600 ms")) as failing,
    ):
        tasks = query.tasks(*query.wait_for_batch())
        with pytest.raises(UnreachableError, match="requestTimeout") as failure:
            failing.read(tasks[0])
    assert "ProvisionedThroughputExceededException" in str(failure.value)
    assert "shardId-" in str(failure.value)


@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException"]
)
def test_denied_access_fails_at_once(filled: KinesisServer, stream: str, code: str) -> None:
    """KN-06: the error says "Failed to list shards.", and has the service's error."""
    denied = error(code)
    with (
        answering(connection_of(filled), "ListShards", lambda _: denied),
        SourceQuery(source_of(filled, stream)) as query,
        pytest.raises(AuthenticationError, match=f"Failed to list shards.*{code}"),
    ):
        query.run(1)


def test_empty_pages_are_passed_over(filled: KinesisServer, stream: str) -> None:
    """The service may answer without records, and have more, where it has searched a shard for long."""
    turns = itertools.count()

    def empty(arguments: dict[str, Any]) -> Any:
        if next(turns) % 3 == 2:
            return None
        again = {"Records": [], "NextShardIterator": arguments["ShardIterator"], "MillisBehindLatest": 5000}
        return 200, again

    with (
        answering(connection_of(filled), "GetRecords", empty),
        SourceQuery(source_of(filled, stream)) as query,
    ):
        assert set(data_of(query.run(40))) == EXPECTED


def test_a_missing_region_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    source = KinesisSource({"streamName": "clicks", "awsAccessKey": "a", "awsSecretKey": "b"})
    with SourceQuery(source) as query, pytest.raises(OptionError, match="'region'"):
        query.run(1)


def test_a_wrong_endpoint_is_named() -> None:
    options = {"awsAccessKey": "a", "awsSecretKey": "b", "region": "us-east-1", "requestTimeout": "300 ms"}
    source = KinesisSource({**options, "streamName": "clicks", "endpoint": "http://127.0.0.1:9"})
    with SourceQuery(source) as query, pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:9"):
        query.run(1)


def test_a_missing_stream_is_named(kinesis: KinesisServer) -> None:
    with (
        SourceQuery(source_of(kinesis, "nowhere")) as query,
        pytest.raises(MissingTopicError, match="'nowhere'"),
    ):
        query.run(1)


def expired(last: dict[str, int]) -> Any:
    """Returns a function that answers as the service does when the records of each shard up to a
    number have expired.
    """

    def answer(arguments: dict[str, Any]) -> Any:
        number = int(arguments.get("StartingSequenceNumber", 10**60))
        return error("InvalidArgumentException") if number <= last[arguments["ShardId"]] else None

    return answer


def test_expired_records_are_data_loss(filled: KinesisServer, stream: str) -> None:
    """``failOnDataLoss`` says whether the query fails and names the shard, or goes on with the
    records that are left.
    """
    source = source_of(filled, stream)
    with SourceQuery(source) as query:
        start, end = query.wait_for_batch(10)
        query.tasks(start, end)
    gone = {name.rpartition("/")[2]: entry[0] // 10 for name, entry in end["splits"].items()}
    with answering(connection_of(filled), "GetShardIterator", expired(gone)):
        with SourceQuery(source, end) as failing, pytest.raises(DataLossError, match=f"{stream}/shardId-"):
            failing.run(1)
        with SourceQuery(source_of(filled, stream, failOnDataLoss="false"), end) as going_on:
            rows = going_on.run(28)
    assert len(set(data_of(rows))) == len(rows) == 28, "all but the record at each position"


def test_a_shard_that_has_expired_is_data_loss(filled: KinesisServer, stream: str) -> None:
    """The service does not know a closed shard any more that was not read to its end. With ``failOnDataLoss`` false,
    its children and the other shards are read.
    """
    with SourceQuery(source_of(filled, stream)) as query:
        batch = query.wait_for_batch(10)
        rows = [row for task in query.tasks(*batch) for row in query.read(task)]
    filled.split(stream, 0)
    filled.put(stream, numbered(40, 30, 3))
    shards = filled.client.list_shards(StreamName=stream)["Shards"]
    gone = shards[0]["ShardId"]
    lost = {b"%d" % i for i in range(0, 40, 2)} - set(data_of(rows))
    assert lost

    def unknown(arguments: dict[str, Any]) -> Any:
        return error("ResourceNotFoundException") if arguments["ShardId"] == gone else None

    with (
        answering(connection_of(filled), "ListShards", lambda _: (200, {"Shards": shards[1:]})),
        answering(connection_of(filled), "GetShardIterator", unknown),
    ):
        with (
            SourceQuery(source_of(filled, stream), batch[1]) as failing,
            pytest.raises(DataLossError, match=gone),
        ):
            failing.run(1)
        with SourceQuery(source_of(filled, stream, failOnDataLoss="false"), batch[1]) as going_on:
            rows += going_on.run(70 - len(rows) - len(lost))
            assert f"{stream}/{gone}" not in going_on.offset["splits"]
    assert sorted(data_of(rows)) == sorted({b"%d" % i for i in range(70)} - lost)


def test_records_that_expire_before_they_are_read(filled: KinesisServer, stream: str) -> None:
    """The range was planned, and its first record has expired when a task reads it."""
    source = source_of(filled, stream)
    with SourceQuery(source) as query:
        batch = query.wait_for_batch()
        tasks = query.tasks(*batch)

        def trimmed(arguments: dict[str, Any]) -> Any:
            return error("InvalidArgumentException") if "StartingSequenceNumber" in arguments else None

        with answering(connection_of(filled), "GetShardIterator", trimmed):
            with pytest.raises(DataLossError, match="failOnDataLoss"):
                query.read(tasks[0])
            tolerant = source_of(filled, stream, failOnDataLoss="false")
            with SourceQuery(tolerant, batch[1]) as going_on:
                assert len(going_on.read(tasks[0])) == 20


def test_a_stream_deleted_and_made_again_is_noticed(kinesis: KinesisServer, stream: str) -> None:
    kinesis.create_stream(stream, 2)
    kinesis.put(stream, numbered(0, 10, 2))
    with SourceQuery(source_of(kinesis, stream)) as query:
        query.run(10)
    kinesis.delete_stream(stream)
    kinesis.create_stream(stream, 1)
    kinesis.put(stream, numbered(10, 10, 1))
    with (
        SourceQuery(source_of(kinesis, stream), query.offset) as failing,
        pytest.raises(DataLossError, match=f"'{stream}' was deleted and created again"),
    ):
        failing.run(1)
    with SourceQuery(source_of(kinesis, stream, failOnDataLoss="false"), query.offset) as going_on:
        rows = going_on.run(10)
    assert data_of(rows) == [b"%d" % i for i in range(10, 20)]


def test_a_network_that_loses_all_fails_the_query(filled: KinesisServer, stream: str) -> None:
    """A query fails and names the address if answers are lost for longer than ``requestTimeout``.
    Started again, it goes on.
    """
    with FaultyNetwork() as network:
        link = network.link("kinesis", filled.address)
        options = {**filled.options, **QUICK, "streamName": stream, "endpoint": f"http://{link.address}"}
        source = KinesisSource({**options, "requestTimeout": "10 s"})
        with SourceQuery(source) as query:
            assert len(query.run(40)) == 40
            with link.apply(BlackHole()), pytest.raises(UnreachableError, match=link.address):
                query.run(1)
        filled.put(stream, numbered(40, 10, 2))
        with SourceQuery(source, query.offset) as resumed:
            assert len(resumed.run(10)) == 10


def test_calls_and_bytes_keep_the_limits_of_the_service() -> None:
    """Five calls pass at once, then one every 200 ms. A call waits while more bytes were read
    than a second allows.
    """
    now, waits = 100.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    shard_limits = ShardLimits(0.2, 1000.0, lambda: now, sleep)
    for _ in range(7):
        shard_limits.wait("shard")
    assert [wait for wait in waits if wait > 0.001] == [pytest.approx(0.2)] * 2
    shard_limits.read("other", 3000)
    shard_limits.wait("other")
    assert waits[-1] == pytest.approx(2.0)


def test_a_query_goes_on_after_the_service_restarts(stream: str) -> None:
    """The emulator dies and comes back with its data. The query goes on at its offset."""
    with KinesisServer(keeps_data=True) as server:
        server.create_stream(stream, 2)
        server.put(stream, numbered(0, 20, 2))
        source = source_of(server, stream)
        with SourceQuery(source) as query:
            assert len(query.run(20)) == 20
            wait_until(lambda: _is_persisted(server), "the data to be written")
            server.kill()
            restarting = threading.Timer(0.5, server.restart)
            restarting.start()
            assert query.run(0) == [], "calls are repeated until the service is back"
            restarting.join()
            server.put(stream, numbered(20, 20, 2))
            assert len(query.run(20)) == 20


def _is_persisted(server: KinesisServer) -> bool:
    assert server._home is not None
    return any(path.suffix == ".json" and path.stat().st_size > 2000 for path in server._home.rglob("*"))
