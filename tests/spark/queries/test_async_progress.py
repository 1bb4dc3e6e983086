"""With asynchronous progress tracking Spark logs only some offsets, and after a failure runs again what lies between
two of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions

from flip27_stream.testing import wait_until
from offsets import MARKER
from tests.spark.support.both_sources import positions
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.kafka_queries import CONTINUOUS, T0, TIME_LIMIT_S, KafkaQueries, records
from tests.support.checkpoint_logs import logged_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

HOURS = "36000000"


def some_batches(query: DrivenQuery, batches: int = 7) -> Iterator[dict[str, Any]]:
    """Returns the offsets of a query that finds a split in its third batch and another one in its fifth."""
    for batch in range(batches):
        for log in query.world.logs.values():
            log += [100 + batch, 100 + batch]
        if batch in (2, 4):
            query.world.logs[f"found in {batch}"] = [100, 101]
            query.discover()
        assert query.step(100) is not None
        yield query.offset


@pytest.mark.parametrize(
    ("aligned", "pairs"), [(False, [*combinations(range(7), 2)]), (True, [(0, 6), (1, 4)])]
)
def test_a_batch_between_any_two_offsets_can_be_run_again(
    make: Callable[..., DrivenQuery], aligned: bool, pairs: list[tuple[int, int]]
) -> None:
    """A batch between any two offsets reads every row between them and no other row. It also reads a split that
    was found in between.
    """
    query = make({"a": [99]}, aligned)
    documents = [*some_batches(query)]
    batches = query.batches[-7:]
    for i, j in pairs:
        query.restart()
        assert query.run(documents[i], documents[j]) == sorted(chain(*batches[i + 1 : j + 1]))
        assert query.coordinator.latest_offset(documents[j], 100) is not None


def test_begins_of_splits_that_are_known_to_be_logged_are_not_repeated(
    make: Callable[..., DrivenQuery],
) -> None:
    """The offset repeats where a split began only until that is known to be logged. Spark tells so with ``commit``,
    one batch later; with asynchronous progress tracking hours later, or never.
    """
    query = make({"a": [99]})
    repeated, before = [], None
    for document in some_batches(query):
        repeated.append(document[MARKER])
        if before is not None:
            query.coordinator.committed(before)
        before = document
    assert repeated == [1, 1, 1, 2, 1, 2, 1]


def test_begins_of_splits_are_repeated_until_they_are_known_to_be_logged(
    make: Callable[..., DrivenQuery],
) -> None:
    query = make({"a": [99]})
    assert [document[MARKER] for document in some_batches(query)] == [1, 1, 1, 2, 2, 2, 2]
    query.restart()
    query.world.logs["a"].append(106)
    assert query.step(100)
    assert query.offset[MARKER] == 2
    query.coordinator.committed(query.offset)
    query.world.logs["a"].append(106)
    assert query.step(100)
    assert query.offset[MARKER] == 1


# ---- on Spark -------------------------------------------------------------------------------------------------------


class Async:
    """A query with asynchronous progress tracking that logs its first offset and, within hours, no other."""

    def __init__(self, stream: DataFrame, checkpoint: Path) -> None:
        self.batches: dict[int, Counter[tuple[str, int, int]]] = {}
        options = {
            "checkpointLocation": str(checkpoint),
            "asyncProgressTrackingEnabled": "true",
            "asyncProgressTrackingCheckpointIntervalMs": HOURS,
            "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
        }
        writer = stream.writeStream.options(**options).trigger(**CONTINUOUS)
        self.query: StreamingQuery = writer.foreachBatch(self._keep).start()

    def _keep(self, batch: DataFrame, number: int) -> None:
        self.batches[number] = positions([batch.toArrow()])

    def progress(self) -> dict[str, Any]:
        """Returns the progress of the last batch."""

        def newest() -> dict[str, Any]:
            progress = self.query.lastProgress
            return progress if progress is not None and progress["batchId"] == max(self.batches) else {}

        wait_until(lambda: bool(newest()), "the progress of the last batch", TIME_LIMIT_S)
        return newest()

    def wait_for(self, rows: int) -> None:
        def came() -> bool:
            if (error := self.query.exception()) is not None:
                raise error
            return sum(map(Counter.total, self.batches.values())) >= rows

        wait_until(came, f"{rows} rows", TIME_LIMIT_S)


@pytest.mark.jvm
def test_a_query_with_asynchronous_progress_goes_on_after_a_crash(
    queries: KafkaQueries, topic: Callable[..., str]
) -> None:
    """A query with asynchronous progress tracking goes on after a crash, and reads again what was not committed. A
    partition was found in a batch whose offset is not logged. The offset of a later batch is logged, in which Spark
    crashed.
    """
    name, checkpoint = topic(1), queries.folder / "checkpoint"
    queries.broker.write(name, records(0, [T0] * 3))
    stream = queries.stream(name, {"kafka.metadata.max.age.ms": "200"})
    before = Async(stream, checkpoint)
    before.wait_for(3)
    admin = KafkaAdminClient(bootstrap_servers=queries.broker.bootstrap_servers)
    admin.create_partitions({name: NewPartitions(2)})
    admin.close()
    queries.broker.write(name, records(1, [T0] * 4))
    before.wait_for(7)
    queries.broker.write(name, records(1, [T0] * 2) + records(0, [T0]))
    before.wait_for(10)
    last = before.progress()
    before.query.stop()
    assert logged_batches(checkpoint, "offsets") == [0]
    end = json.loads(last["sources"][0]["endOffset"])
    log = checkpoint / "offsets"
    header = (log / "0").read_text().splitlines()[:2]
    (log / str(max(before.batches))).write_text("\n".join([*header, json.dumps(end)]))

    after = Async(stream, checkpoint)
    after.wait_for(7)
    queries.broker.write(name, records(0, [T0]))
    after.wait_for(8)
    after.query.stop()
    later = sum((rows for number, rows in before.batches.items() if number > 0), Counter())
    assert after.batches.pop(max(before.batches)) == later
    assert sum(after.batches.values(), Counter()) == {(name, 0, 4): 1}
