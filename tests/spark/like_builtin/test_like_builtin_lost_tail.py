"""A partition loses its last records during an AvailableNow run. The test runs on Spark's built-in source and on this
project's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flip27_stream.testing import KafkaBroker
from tests.spark.support.both_sources import Collected, both_formats, failure
from tests.spark.support.kafka_queries import T0, KafkaQueries, records

pytestmark = pytest.mark.jvm

FIRST, LAST = 8, 3


@pytest.fixture(scope="module")
def fragile() -> Iterator[KafkaBroker]:
    """A broker that the test may kill."""
    with KafkaBroker() as broker:
        yield broker


def written(broker: KafkaBroker, topic: str) -> tuple[Path, int]:
    """Creates and fills a topic. Returns its log file on the broker's disk, and the length (bytes) that the file had
    before the last records were written.
    """
    broker.create_topic(topic, 1)
    broker.write(topic, records(0, [T0] * FIRST))
    assert broker._home is not None
    log = broker._home / "data" / f"{topic}-0" / f"{0:020}.log"
    length = log.stat().st_size
    broker.write(topic, records(0, [T0] * LAST))
    return log, length


@both_formats
def test_an_available_now_run_fails_when_a_partition_loses_its_tail(
    queries: KafkaQueries, fragile: KafkaBroker, source: str
) -> None:
    """The run fails even with ``failOnDataLoss`` false. The shortened log file stands for a restored disk, and
    for an unclean leader election, too.
    """
    queries = replace(queries, broker=fragile)
    log, length = written(fragile, f"tail-{source}")
    options = {"maxOffsetsPerTrigger": "5", "failOnDataLoss": "false"}
    stream = queries.stream(f"tail-{source}", options, source)

    class Losing(Collected):
        def _keep(self, batch: object, number: int) -> None:
            if number == 0:
                fragile.kill()
                with log.open("r+b") as file:
                    file.truncate(length)
                fragile.restart()

    said = failure(lambda: Losing(stream, queries.folder / "c").finish())
    assert (
        "report available offset which is less than end offset during running query with Trigger.AvailableNow"
        in said
    )
