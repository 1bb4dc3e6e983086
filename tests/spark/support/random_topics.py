"""Random topics with everything that a Kafka log can have, and random options to read them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from flip27_stream.connectors.kafka.records.compression import CODECS
from flip27_stream.testing import KafkaBroker, write_bulk
from tests.spark.support.kafka_queries import HOUR, T0


@dataclass(frozen=True)
class RandomTopic:
    """A topic.

    Attributes:
        begins: The first offset of each partition, as the broker returns it.
        ends: The end offset of each partition, as the broker returns it.
        times: Event times (ms) between which records were written, and around them.
    """

    topic: str
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    times: tuple[int, ...]

    @property
    def partitions(self) -> range:
        return range(len(self.ends))


@contextmanager
def random_logs(broker: KafkaBroker, names: list[str], rng: random.Random) -> Iterator[list[RandomTopic]]:
    """Fills the named topics at random. In the last one a transaction stays open until the block ends."""
    servers = {"bootstrap_servers": broker.bootstrap_servers}
    with ExitStack() as stack:
        producers = [
            stack.enter_context(closing(KafkaProducer(**servers, compression_type=codec, linger_ms=5)))
            for codec in (None, *CODECS[1:])
        ]
        open_for_long = {"transaction_timeout_ms": 600_000, "transactional_id": names[-1]}
        transactional = stack.enter_context(closing(KafkaProducer(**servers, **open_for_long)))
        transactional.init_transactions()
        writer = _Writer(rng, producers, transactional)
        times = {name: _fill(broker, name, writer, stays_open=name == names[-1]) for name in names}
        stack.callback(transactional.abort_transaction)
        yield [_log(broker, name, times[name]) for name in names]


@dataclass(frozen=True)
class _Writer:
    rng: random.Random
    plain: list[KafkaProducer]
    transactional: KafkaProducer

    def records(self, topic: str, partitions: list[int], count: int, producer: KafkaProducer) -> None:
        """Writes random records: some are null or empty, some have headers, and event times are out of order."""
        rng = self.rng
        for _ in range(count):
            key = rng.choice([None, b"", rng.randbytes(rng.randrange(1, 9))])
            value = rng.choice([None, b"", rng.randbytes(rng.randrange(1, 200)), b"v" * 3000])
            producer.send(
                topic,
                partition=rng.choice(partitions),
                timestamp_ms=T0 + rng.randrange(HOUR),
                key=key,
                value=b"both null" if key is value is None else value,  # the producer refuses two nulls
                headers=[
                    (rng.choice("ab"), rng.choice([b"", b"1"])) for _ in range(rng.choice([0, 0, 1, 3]))
                ],
            )
        producer.flush()

    def nulls(self, broker: KafkaBroker, topic: str, partition: int) -> None:
        """Writes records that have only a timestamp."""
        times = np.array([T0 + self.rng.randrange(HOUR) for _ in range(3)])
        write_bulk(broker.bootstrap_servers, topic, partition, times, pa.nulls(3, pa.binary()))


def _fill(broker: KafkaBroker, topic: str, writer: _Writer, *, stays_open: bool) -> tuple[int, ...]:
    """Creates and fills a topic, and returns the times between the writes."""
    rng = writer.rng
    count = rng.randint(1, 5)
    appended = rng.random() < 0.3
    broker.create_topic(topic, count, {"message.timestamp.type": "LogAppendTime"} if appended else {})
    used = sorted(rng.sample(range(count), rng.randint(1, count)))
    between = [int(time.time() * 1000)]
    for _ in range(rng.randint(1, 4)):
        if rng.random() < 0.2:
            writer.nulls(broker, topic, used[0])
        elif rng.random() < 0.4:
            writer.transactional.begin_transaction()
            writer.records(topic, used, rng.randint(1, 20), writer.transactional)
            finish = rng.choice(
                [writer.transactional.commit_transaction, writer.transactional.abort_transaction]
            )
            finish()
        else:
            writer.records(topic, used, rng.randint(1, 40), rng.choice(writer.plain))
        between.append(int(time.time() * 1000))
    if stays_open:
        writer.transactional.begin_transaction()
        writer.records(topic, used, 5, writer.transactional)
        writer.records(topic, used, 5, writer.plain[0])
    if rng.random() < 0.4:
        _delete_the_first(broker, topic, rng)
    return tuple(between) if appended else tuple(T0 + n * HOUR // 4 for n in range(-1, 5))


def _delete_the_first(broker: KafkaBroker, topic: str, rng: random.Random) -> None:
    log = _log(broker, topic, ())
    partition = rng.choice(log.partitions)
    before = rng.randint(0, log.ends[partition])
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.delete_records({TopicPartition(topic, partition): before})


def _log(broker: KafkaBroker, topic: str, times: tuple[int, ...]) -> RandomTopic:
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)) as consumer:
        partitions = [TopicPartition(topic, n) for n in sorted(consumer.partitions_for_topic(topic))]
        begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    return RandomTopic(
        topic, tuple(begins[tp] for tp in partitions), tuple(ends[tp] for tp in partitions), times
    )


@dataclass(frozen=True)
class OptionSets:
    """Draws random options to read some logs. About a third of the sets cannot be read."""

    rng: random.Random
    logs: list[RandomTopic]

    def batch(self) -> dict[str, str]:
        return self._spelled(
            self._what() | self._start(bounded=True) | self._end() | self._reading() | self._tasks()
        )

    def stream(self) -> dict[str, str]:
        return self._spelled(self._what() | self._start(bounded=False) | self._reading() | self._limits())

    def _what(self) -> dict[str, str]:
        if self.rng.random() < 0.5:
            return {"subscribe": ",".join(log.topic for log in self.logs)}
        if self.rng.random() < 0.5:
            return {"subscribePattern": "|".join(log.topic for log in self.logs)}
        return {"assign": json.dumps({log.topic: list(log.partitions) for log in self.logs})}

    def _start(self, *, bounded: bool) -> dict[str, str]:
        kind = self.rng.choice(["word", "offsets", "offsets", "timestamp", "timestamps", "two"])
        by_default = "earliest" if bounded else "latest"
        found: dict[str, str] = {}
        if kind == "word":
            found = self.rng.choice([{}, {"startingOffsets": "earliest"}, {"startingOffsets": by_default}])
        if kind in ("offsets", "two"):
            found["startingOffsets"] = self._offsets(markers=[-2] * 15 + [-1])
        if kind in ("timestamp", "two"):
            found["startingTimestamp"] = str(self._time(early=True))
        if kind == "timestamps":
            found["startingOffsetsByTimestamp"] = self._timestamps(early=True)
        if self.rng.random() < 0.6:
            found["startingOffsetsByTimestampStrategy"] = self.rng.choice(["latest", "latest", "error"])
        return found

    def _end(self) -> dict[str, str]:
        return self.rng.choice(
            [
                {},
                {"endingOffsets": "latest"},
                {"endingOffsets": self._offsets(markers=[-1] * 15 + [-2], part=(0.5, 1))},
                {"endingTimestamp": str(self._time(early=False))},
                {"endingOffsetsByTimestamp": self._timestamps(early=False)},
            ]
        )

    def _reading(self) -> dict[str, str]:
        return self._some(
            includeHeaders=["true", "false"],
            failOnDataLoss=["true", "false"],
            **{"kafka.isolation.level": ["read_committed", "read_committed", "read_uncommitted"]},
        )

    def _tasks(self) -> dict[str, str]:
        return self._some(minPartitions=["1", "3", "12", "0"], maxRecordsPerPartition=["1000", "7"])

    def _limits(self) -> dict[str, str]:
        records = sum(sum(log.ends) - sum(log.begins) for log in self.logs)
        limit = max(1, records // self.rng.randint(2, 6))
        return self._tasks() | {"maxOffsetsPerTrigger": str(limit)}

    def _offsets(self, markers: list[int], part: tuple[float, float] = (0, 0.3)) -> str:
        """Returns offsets in the given part of each partition, and sometimes a marker for the earliest or latest
        offset, or seldom an offset outside the log.
        """

        def offset(begin: int, end: int) -> int:
            kind = self.rng.random()
            if kind < 0.3:
                return self.rng.choice(markers)
            if kind < 0.35:
                return self.rng.choice([max(begin - 5, 0), end + 5])
            low, high = (begin + round((end - begin) * share) for share in part)
            return self.rng.randint(low, high)

        return self._by_partition(offset)

    def _timestamps(self, *, early: bool) -> str:
        return self._by_partition(lambda begin, end: self._time(early=early))

    def _by_partition(self, value: Callable[[int, int], int]) -> str:
        named = {
            log.topic: {str(n): value(log.begins[n], log.ends[n]) for n in log.partitions}
            for log in self.logs
        }
        if self.rng.random() < 0.1:
            named[self.logs[0].topic].popitem()
        return json.dumps(named)

    def _time(self, *, early: bool) -> int:
        """Returns a time in the first or the last half of the times of a log, or seldom any other time of the log."""
        times = self.rng.choice(self.logs).times
        half = (len(times) + 1) // 2
        likely = times[:half] if early else times[half:]
        return self.rng.choice(likely * 5 + times)

    def _some(self, **values: list[str]) -> dict[str, str]:
        return {name: self.rng.choice(of) for name, of in values.items() if self.rng.random() < 0.4}

    def _spelled(self, options: Mapping[str, str]) -> dict[str, str]:
        """Returns the options with some of their names in upper case."""
        upper = self.rng.random() < 0.1
        return {name.upper() if upper and "kafka." not in name else name: v for name, v in options.items()}
