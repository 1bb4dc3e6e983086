"""Random queries over random topics have the same result with Spark's built-in Kafka source and with this project's.

With the environment variable ``FLIP27_EXPLORE`` each run draws new topics and options. Otherwise the seed is fixed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from flip27_stream.testing import KafkaBroker
from tests.spark.support.both_sources import (
    BUILT_IN,
    OURS,
    Batches,
    Collected,
    assert_same_outcome,
    outcome,
    rows,
)
from tests.spark.support.kafka_queries import KafkaQueries
from tests.spark.support.random_topics import Log, OptionSets, random_logs

pytestmark = pytest.mark.jvm

SEED = random.randrange(2**32) if "FLIP27_EXPLORE" in os.environ else 27
TOPICS, BATCH_READS, STREAMS = 10, 16, 4


@pytest.fixture(scope="module")
def logs(broker: KafkaBroker) -> Iterator[list[Log]]:
    names = [f"random-{SEED}-{number}" for number in range(TOPICS)]
    with random_logs(broker, names, random.Random(SEED)) as found:
        yield found


def drawn(logs: list[Log], case: str) -> OptionSets:
    """Returns the random option sets of a case, which reads one topic, or seldom two. The last topic, which has an
    open transaction, is chosen more often than the others."""
    rng = random.Random(f"{SEED}-{case}")
    chosen = rng.sample(logs, 2 if rng.random() < 0.2 else 1)
    return OptionSets(rng, [logs[-1]] if rng.random() < 0.15 else chosen)


@pytest.mark.parametrize("case", range(BATCH_READS))
def test_batch_reads_give_the_same_rows(queries: KafkaQueries, logs: list[Log], case: int) -> None:
    """SK-15, SK-16, SK-20, SK-33: batch reads through both sources return rows that are equal in every column, or
    both fail."""
    options = drawn(logs, f"batch-{case}").batch()

    def read(source: str) -> Batches:
        given = {"kafka.bootstrap.servers": queries.broker.bootstrap_servers} | options
        return [rows(queries.spark.read.format(source).options(**given).load())]

    ours, theirs = outcome(lambda: read(OURS)), outcome(lambda: read(BUILT_IN))
    assert_same_outcome(queries.spark, ours, theirs, (SEED, options))


@pytest.mark.parametrize("case", range(STREAMS))
def test_streams_have_the_same_batches(queries: KafkaQueries, logs: list[Log], case: int) -> None:
    """SK-01, SK-04: AvailableNow runs with a read limit have the same rows in each batch with both sources, or both
    fail."""
    options = drawn(logs, f"stream-{case}").stream()

    def start(source: str) -> Collected:
        given = {"kafka.bootstrap.servers": queries.broker.bootstrap_servers} | options
        stream = queries.spark.readStream.format(source).options(**given).load()
        return Collected(stream, queries.folder / source)

    def finished(started: Collected | Exception) -> Batches | Exception:
        return started if isinstance(started, Exception) else outcome(started.finish)

    ours, theirs = outcome(lambda: start(OURS)), outcome(lambda: start(BUILT_IN))
    assert_same_outcome(queries.spark, finished(ours), finished(theirs), (SEED, options))
