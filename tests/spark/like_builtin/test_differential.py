"""Random queries over random topics have the same result with Spark's built-in Kafka source and with this project's.

With the environment variable ``FLIP27_EXPLORE`` each run draws new topics and options. Otherwise the seed is fixed.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest

from flip27_stream.testing import KafkaBroker
from tests.spark.support.both_sources import (
    BUILT_IN,
    OURS,
    Batches,
    assert_same_outcome,
    collect,
    new_checkpoint,
    outcome,
    rows,
)
from tests.spark.support.kafka_queries import KafkaQueries
from tests.spark.support.random_topics import OptionSets, RandomTopic, random_logs

pytestmark = pytest.mark.jvm

SEED = random.randrange(2**32) if "FLIP27_EXPLORE" in os.environ else 27
TOPICS, BATCH_READS, STREAMS = 10, 10, 3
MOST_DRAWS = 20

Read = Callable[[str, Mapping[str, str]], Batches]


_numbers = itertools.count(1)
"""Numbers for names of topics. With ``--dist=worksteal`` a worker may make the fixture of this module several times."""


@pytest.fixture(scope="module")
def logs(broker: KafkaBroker) -> Iterator[list[RandomTopic]]:
    made = next(_numbers)
    names = [f"random-{SEED}-{made}-{number}" for number in range(TOPICS)]
    with random_logs(broker, names, random.Random(SEED)) as found:
        yield found


def drawn(logs: list[RandomTopic], case: str) -> OptionSets:
    """Returns the random option sets of a case, which reads one topic, or seldom two. The last topic, which has an
    open transaction, is chosen more often than the others.
    """
    rng = random.Random(f"{SEED}-{case}")
    chosen = rng.sample(logs, 2 if rng.random() < 0.2 else 1)
    return OptionSets(rng, [logs[-1]] if rng.random() < 0.15 else chosen)


def check_until_both_succeed(queries: KafkaQueries, draw: Callable[[], dict[str, str]], read: Read) -> None:
    """Draws options until both sources succeed. Checks that they have the same outcome with all that were drawn."""
    # Spark's source waits that long for records after the end of a log.
    given = {
        "kafka.bootstrap.servers": queries.broker.bootstrap_servers,
        "kafkaConsumer.pollTimeoutMs": "2000",
    }
    for _ in range(MOST_DRAWS):
        options = draw()
        ours, theirs = (outcome(partial(read, source, given | options)) for source in (OURS, BUILT_IN))
        assert_same_outcome(queries.spark, ours, theirs, (SEED, options))
        if not isinstance(ours, Exception):
            return
    raise AssertionError(f"both sources failed with each of {MOST_DRAWS} sets of options")


@pytest.mark.parametrize("case", range(BATCH_READS))
def test_batch_reads_give_the_same_rows(queries: KafkaQueries, logs: list[RandomTopic], case: int) -> None:
    """SK-15, SK-16, SK-20, SK-33: batch reads through both sources return rows that are equal in every column, or
    both fail for the same reason. Each case has a read that succeeds.
    """

    def read(source: str, options: Mapping[str, str]) -> Batches:
        return [rows(queries.spark.read.format(source).options(**options).load())]

    check_until_both_succeed(queries, drawn(logs, f"batch-{case}").batch, read)


@pytest.mark.parametrize("case", range(STREAMS))
def test_streams_have_the_same_batches(queries: KafkaQueries, logs: list[RandomTopic], case: int) -> None:
    """SK-01, SK-04: AvailableNow runs with a read limit have the same rows in each batch with both sources, or both
    fail for the same reason. Each case has a run that succeeds.
    """

    def read(source: str, options: Mapping[str, str]) -> Batches:
        stream = queries.spark.readStream.format(source).options(**options).load()
        return collect(stream, new_checkpoint(queries.folder))

    check_until_both_succeed(queries, drawn(logs, f"stream-{case}").stream, read)
