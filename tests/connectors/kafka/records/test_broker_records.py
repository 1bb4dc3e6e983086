"""Logs of a real broker with every kind of record, read as they were written and as kafka-python reads them.

Brokers since 4.0 let no client write the formats before record batches, and still serve logs that older ones wrote.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka import TopicPartition as ClientPartition

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit
from flip27_stream.testing import KafkaBroker, wait_until
from flip27_stream.testing.kafka.bulk import _send
from flip27_stream.testing.task_rows import TaskRows
from tests.connectors.kafka.support.batch_bytes import (
    GZIP,
    LZ4,
    SNAPPY,
    T0,
    ZSTD,
    BatchRow,
    old,
    old_rows,
    patched,
    some_rows,
    v2,
    xerial,
)
from tests.connectors.kafka.support.kit import (
    read,
    running,
    settle,
    source,
    transactions,
    write_transaction,
)
from tests.testing.support.reading import read as consume

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]

READ_COMMITTED = {"kafka.isolation.level": "read_committed"}
HEADERS = {"includeHeaders": "true"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which :func:`own_broker` keeps its partitions."""
    return tmp_path_factory.mktemp("broker") / "logs"


@pytest.fixture(scope="module")
def own_broker(logs: Path) -> Iterator[KafkaBroker]:
    """A broker that compacts at once. A test can write to its log while it is down."""
    with KafkaBroker({"log.cleaner.backoff.ms": "100", "log.dirs": str(logs)}) as running_broker:
        yield running_broker


def append(broker: KafkaBroker, topic: str, *batches: bytes, partition: int = 0) -> None:
    """Writes batches as they are. The broker gives them their offsets, which have no gaps within a batch."""
    _send(broker.bootstrap_servers, topic, partition, iter(batches))


def rows(output: TaskRows) -> list[BatchRow]:
    found = []
    times = output.table["timestamp"].cast(pa.int64()).to_pylist()
    for row, time_us in zip(output.rows, times, strict=True):
        headers = tuple((h["key"], h["value"]) for h in row.get("headers") or ())
        found.append(BatchRow(row["offset"], time_us // 1000, row["key"], row["value"], headers))
    return found


def consumed(broker: KafkaBroker, topic: str, isolation: str = "read_uncommitted") -> list[BatchRow]:
    records = consume(broker.bootstrap_servers, topic, isolation=isolation)
    return [BatchRow(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]


def assert_read(broker: KafkaBroker, topic: str, expected: list[BatchRow], end: int, **options: str) -> None:
    """Checks that the reader gives these rows, in ranges that begin and end anywhere, also
    within batches and gaps.
    """
    made = source(broker, options | HEADERS, subscribe=topic)
    rng = random.Random(4)
    cuts = sorted({0, end, *(rng.randrange(end + 1) for _ in range(6))})
    assert rows(read(made, KafkaPartitionSplit(topic, 0, 0, end))) == expected
    for start, stop in [*pairwise(cuts), (cuts[1], cuts[-2])]:
        found = rows(read(made, KafkaPartitionSplit(topic, 0, start, stop)))
        assert found == [row for row in expected if start <= row.offset < stop]


def batch_of(rows: list[BatchRow], codec: int) -> bytes:
    return v2([row._replace(offset=i) for i, row in enumerate(rows)], codec)


def test_nulls_and_headers_are_read_in_every_codec(broker: KafkaBroker, topic: MakeTopic) -> None:
    """One partition has batches of all codecs, of no codec, and of both frames of snappy.
    Headers keep their order.
    """
    name = topic()
    kinds = [
        (None, None, ()),
        (None, b"", (("b", b"1"), ("a", None), ("b", b""), ("", b"\xff"))),
        (b"", None, (("a", None),)),
        (b"key", b"value" * 90, ()),
        (b"key", b"v", (("é", b"x" * 200),) * 40),
    ]
    expected: list[BatchRow] = []
    for codec in (0, GZIP, SNAPPY, LZ4, ZSTD, LZ4, 0, ZSTD, SNAPPY, GZIP):
        at = len(expected)
        expected += [BatchRow(at + i, T0 - at - i, *kind) for i, kind in enumerate(kinds)]
        append(broker, name, batch_of(expected[at:], codec))
    framed = batch_of(expected[:5], 0)
    append(broker, name, patched(framed, attributes=SNAPPY, records=xerial(framed[61:])))
    expected += [row._replace(offset=len(expected) + i) for i, row in enumerate(expected[:5])]
    assert consumed(broker, name) == expected
    assert_read(broker, name, expected, len(expected))


@pytest.mark.parametrize("codec", ["producer", "gzip", "lz4", "zstd", "uncompressed"])
def test_times_of_the_broker_are_read(broker: KafkaBroker, topic: MakeTopic, codec: str) -> None:
    """With LogAppendTime all records of a batch have its one time, also if the broker compresses them."""
    name = topic(config={"message.timestamp.type": "LogAppendTime", "compression.type": codec})
    before = int(time.time() * 1000)
    for codec_id in (0, LZ4, GZIP):
        append(broker, name, batch_of(some_rows(4), codec_id))
    output = read(source(broker, subscribe=name), KafkaPartitionSplit(name, 0, 1, 12))
    assert rows(output) == consumed(broker, name)[1:]
    assert output.column("timestampType") == [1] * 11
    assert before <= min(output.timestamps) <= max(output.timestamps) <= time.time() * 1000
    assert len({*output.timestamps[:3]}) == len({*output.timestamps[3:7]}) == 1


def test_interleaved_transactions_are_told_apart(broker: KafkaBroker, topic: MakeTopic) -> None:
    """Records of a committed, an aborted and an open transaction, and records of no transaction, lie mixed."""
    name = topic()
    with ExitStack() as stack:
        one, other, left_open = (
            stack.enter_context(transactions(broker, f"{name}-{number}")) for number in range(3)
        )
        plain = stack.enter_context(closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers)))
        for kept, dropped in ((one, other), (other, one), (one, other)):
            for producer in (one, other):
                producer.begin_transaction()
            for number in range(12):
                producer = (one, other, plain, other)[number % 4]
                producer.send(name, b"%d" % number, partition=0, timestamp_ms=T0).get(timeout=30)
            dropped.abort_transaction()
            kept.commit_transaction()
        settle(broker, name)
        ended = consumed(broker, name, "read_committed")
        assert len(ended) == (3 + 3) + (6 + 3) + (3 + 3)
        write_transaction(left_open, name, [T0] * 5, commit=None)
        plain.send(name, b"behind", partition=0, timestamp_ms=T0).get(timeout=30)
        for isolation in ("read_committed", "read_uncommitted"):
            options = {"kafka.isolation.level": isolation, "startingOffsets": "earliest"}
            with running(source(broker, options, subscribe=name)) as query:
                found = rows(query.read(query.ranges()))
            assert found == consumed(broker, name, isolation)
            assert (found == ended) is (isolation == "read_committed")
        left_open.commit_transaction()
        settle(broker, name)
        expected = consumed(broker, name, "read_committed")
        assert len(expected) == len(ended) + 6
        assert_read(broker, name, expected, expected[-1].offset + 2, **READ_COMMITTED)


def test_a_compacted_topic_is_read(own_broker: KafkaBroker) -> None:
    """Compaction leaves gaps within batches and between them, tombstones and markers. Aborted records are gone."""
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}
    own_broker.create_topic("compacted", 1, compact)
    rng = random.Random(7)
    written: list[BatchRow] = []
    for codec in (0, LZ4, ZSTD, 0):
        keys = [b"%d" % rng.randrange(40 if len(written) < 60 else 8) for _ in range(30)]
        some = [BatchRow(len(written) + i, T0, key, rng.choice([b"v", None])) for i, key in enumerate(keys)]
        append(own_broker, "compacted", batch_of(some, codec))
        written += some
    with transactions(own_broker, "compacted") as producer:
        write_transaction(producer, "compacted", [T0] * 3, commit=False, key=b"0")
        settle(own_broker, "compacted")
    # A later time closes the segment, and only closed ones are compacted.
    append(own_broker, "compacted", batch_of([BatchRow(0, T0 + 10_000, b"last", b"v")], 0))
    newest = {row.key: row for row in written}
    end = len(written) + 3 + 1 + 1

    def compacted() -> bool:
        return len(consumed(own_broker, "compacted", "read_committed")) <= len(newest) + 1

    wait_until(compacted, "the topic to be compacted")
    expected = consumed(own_broker, "compacted", "read_committed")
    assert expected == [*sorted(newest.values()), BatchRow(end - 1, T0 + 10_000, b"last", b"v")]
    assert any(row.value is None for row in expected)
    assert_read(own_broker, "compacted", expected, end, **READ_COMMITTED)


def test_records_larger_than_a_fetch_are_read(broker: KafkaBroker, topic: MakeTopic) -> None:
    """Records above max.partition.fetch.bytes and fetch.max.bytes are read among small ones, and so is a batch that
    is large when it is decompressed.
    """
    name = topic(config={"max.message.bytes": str(16 << 20)})
    small, large = some_rows(2), [BatchRow(0, T0, b"k", random.Random(1).randbytes(9 << 20))]
    unpacked = [BatchRow(i, T0, None, bytes(3 << 20)) for i in range(8)]
    batches = [(small, 0), (large, 0), (small, LZ4), (large, LZ4), (unpacked, ZSTD), (small, 0)]
    expected: list[BatchRow] = []
    for some, codec in batches:
        append(broker, name, batch_of(some, codec))
        expected += [row._replace(offset=len(expected) + i) for i, row in enumerate(some)]
    for fetch, partition in ((52_428_800, 1_048_576), (2 << 20, 52_428_800), (1 << 20, 1000)):
        limits = {
            "kafka.fetch.max.bytes": str(fetch),
            "kafka.max.partition.fetch.bytes": str(partition),
        }
        output = read(source(broker, limits, subscribe=name), KafkaPartitionSplit(name, 0, 1, len(expected)))
        assert rows(output) == expected[1:]


def test_empty_partitions_have_no_rows(broker: KafkaBroker, topic: MakeTopic) -> None:
    """Partitions that were never written or were emptied, or that hold only an aborted transaction, have no rows. The
    reader does not wait for any.
    """
    name = topic(4)
    append(broker, name, batch_of(some_rows(5), LZ4), partition=1)
    append(broker, name, batch_of(some_rows(3), 0), partition=3)
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.delete_records({ClientPartition(name, 1): 5})
    with transactions(broker, name) as producer:
        write_transaction(producer, name, [T0] * 3, commit=False, partition=2)
        settle(broker, name, partition=2)
    with running(source(broker, READ_COMMITTED, subscribe=name, startingOffsets="earliest")) as query:
        ranges = query.ranges()
        assert ranges == {
            f"{name}-0": SplitRange(0, 0),
            f"{name}-1": SplitRange(5, 5),
            f"{name}-2": SplitRange(0, 4),
            f"{name}-3": SplitRange(0, 3),
        }
        output = query.read(ranges)
    assert output.column("partition") == [3, 3, 3]


def test_logs_with_old_message_formats_are_read(own_broker: KafkaBroker, logs: Path) -> None:
    """A log on a broker's disk went through two upgrades: it has magic 0, 1 and 2, with each codec."""
    own_broker.create_topic("old")
    expected: list[BatchRow] = []
    log = b""
    for magic in (0, 1):
        for codec in (0, GZIP, SNAPPY, *([LZ4] if magic else [])):
            some = [row._replace(offset=row.offset + 10 * len(expected)) for row in old_rows(magic)]
            log += old(some, magic, codec)
            expected += some
    after = [row._replace(offset=1000 + i) for i, row in enumerate(some_rows(3))]
    log += v2(after, ZSTD)
    expected += after
    append(own_broker, "old", batch_of(some_rows(1), 0))  # makes the log
    own_broker.kill()
    (logs / "old-0" / f"{0:020}.log").write_bytes(log)
    own_broker.restart()
    made = source(own_broker, subscribe="old", startingOffsets="earliest")
    with running(made) as query:
        whole = {"old-0": SplitRange(0, 1003)}
        wait_until(lambda: query.ranges() == whole, "the broker to have recovered its log")
    output = read(made, KafkaPartitionSplit("old", 0, 0, 1003))
    assert rows(output) == expected
    assert output.column("timestampType") == [-1] * 9 + [0] * 15
    assert_read(own_broker, "old", expected, 1003)
