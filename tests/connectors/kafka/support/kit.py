"""Replaces Spark in tests of the Kafka source: contexts, and tasks that collect the rows of a reader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewPartitions
from kafka.structs import TopicPartition as KafkaPythonPartition

from flip27_stream.api import (
    InputStatus,
    MetricGroup,
    ReaderInfo,
    SourceEvent,
    SplitEnumeratorContext,
    SplitRange,
    SplitsAssignment,
    WatermarkStrategy,
)
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.client.client import ConnectionOptions, KafkaClient
from flip27_stream.connectors.kafka.planning.enumerator import KafkaSourceEnumerator
from flip27_stream.connectors.kafka.planning.enumerator_state import KafkaEnumeratorState
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, TopicPartition
from flip27_stream.reader.drive import read_ranges
from flip27_stream.testing import KafkaBroker, wait_until
from flip27_stream.testing.task_rows import TaskRows
from tests.reader.support.kit import ReaderContext


@dataclass
class RequestedCall:
    """A call that an enumerator has requested."""

    callable: Callable[[], Any]
    handler: Callable[[Any, BaseException | None], None]
    initial_delay_ms: int | None
    period_ms: int | None

    def run(self) -> None:
        try:
            value = self.callable()
        except Exception as error:  # noqa: BLE001 - as the coordinator does: whatever it is, the handler gets it
            self.handler(None, error)
        else:
            self.handler(value, None)


@dataclass
class EnumeratorContext(SplitEnumeratorContext[KafkaPartitionSplit]):
    """A context that runs one-time calls at once, and periodic calls on request."""

    parallelism: int = 2
    calls: list[RequestedCall] = field(default_factory=list)
    assignments: list[dict[int, list[KafkaPartitionSplit]]] = field(default_factory=list)

    @property
    def splits(self) -> dict[str, KafkaPartitionSplit]:
        return {s.split_id: s for each in self.assignments for splits in each.values() for s in splits}

    def run_periodic(self) -> None:
        for call in self.calls:
            if call.period_ms is not None:
                call.run()

    def metric_group(self) -> MetricGroup:
        return MetricGroup()

    def current_parallelism(self) -> int:
        return self.parallelism

    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        return {n: ReaderInfo(n, "localhost") for n in range(self.parallelism)}

    def assign_splits(self, assignment: SplitsAssignment[KafkaPartitionSplit]) -> None:
        self.assignments.append({reader: list(splits) for reader, splits in assignment.assignment.items()})

    def retire_splits(self, split_ids: Collection[str]) -> None:
        raise NotImplementedError

    def signal_no_more_splits(self, subtask_id: int) -> None:
        raise NotImplementedError

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        raise NotImplementedError

    def call_async(
        self,
        callable: Callable[[], Any],
        handler: Callable[[Any, BaseException | None], None],
        initial_delay_ms: int | None = None,
        period_ms: int | None = None,
    ) -> None:
        call = RequestedCall(callable, handler, initial_delay_ms, period_ms)
        self.calls.append(call)
        if period_ms is None:
            call.run()

    def run_in_coordinator_thread(self, runnable: Callable[[], None]) -> None:
        runnable()


class EnumeratorQuery:
    """A running enumerator, with the positions that a coordinator would keep."""

    def __init__(self, source: KafkaSource, checkpoint: KafkaEnumeratorState | None = None) -> None:
        self.source = source
        self.context = EnumeratorContext()
        self.positions: dict[KafkaPartitionSplit, int | None] = {}
        self.enumerator: KafkaSourceEnumerator = source.restore_enumerator(
            self.context, checkpoint or KafkaEnumeratorState()
        )

    def ranges(self) -> dict[str, SplitRange]:
        for split in self.context.splits.values():
            self.positions.setdefault(split, None)
        return dict(self.enumerator.split_ranges(self.positions))

    def move_to_ends(self) -> dict[str, SplitRange]:
        """Plans all existing records, as without alignment."""
        ranges = self.ranges()
        self.positions.update({s: ranges[s.split_id].end for s in self.positions if s.split_id in ranges})
        return ranges

    def read(self, ranges: Mapping[str, SplitRange]) -> TaskRows:
        state = self.enumerator.snapshot_state()
        splits = {s.split_id: s for s in self.source.splits_for_readers(list(self.positions), state)}
        return read(self.source, *(splits[i].between(r.position, r.end) for i, r in ranges.items()))


def read(source: KafkaSource, *splits: KafkaPartitionSplit) -> TaskRows:
    """Returns the output of a task with these splits, which are bounded."""
    output, polls = polled(source, *splits)
    for _ in polls:
        pass
    assert sorted(output.released) == sorted(split.split_id for split in splits)
    check_rows(output)
    return output


def polled(
    source: KafkaSource, *splits: KafkaPartitionSplit
) -> tuple[TaskRows, Generator[InputStatus, None, None]]:
    """Returns the output of a task with these splits, and the iterator that reads them, poll by poll."""
    ranges = [planned(split) for split in splits]
    output = TaskRows(source.schema, ranges)
    return output, read_ranges(source, ReaderContext(), ranges, output)


def planned(split: KafkaPartitionSplit) -> PlannedRange:
    """Returns the range of a bounded split."""
    assert split.stopping_offset is not None
    return PlannedRange(split, split.starting_offset, split.stopping_offset)


def check_rows(output: TaskRows) -> None:
    """Checks that the positions of rows are their offsets, and that timestamps come with them."""
    assert output.positions == output.column("offset")
    assert len(output.timestamps) == output.table.num_rows


@contextmanager
def running(source: KafkaSource, checkpoint: KafkaEnumeratorState | None = None) -> Iterator[EnumeratorQuery]:
    """Yields an enumerator that is started, and closed at the end."""
    query = EnumeratorQuery(source, checkpoint)
    try:
        query.enumerator.start()
        yield query
    finally:
        query.enumerator.close()


def source(
    broker: KafkaBroker,
    options: Mapping[str, str] | None = None,
    /,
    *,
    strategy: WatermarkStrategy | None = None,
    **more: str,
) -> KafkaSource:
    """Returns a Kafka source that reads from a broker."""
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    return KafkaSource({**servers, **(options or {}), **more}, strategy)


@contextmanager
def transactions(broker: KafkaBroker, transactional_id: str) -> Iterator[KafkaProducer]:
    """Yields a transactional producer."""
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id=transactional_id, linger_ms=1
    )
    try:
        producer.init_transactions()
        yield producer
    finally:
        producer.close()


def write_transaction(
    producer: KafkaProducer,
    topic: str,
    times: list[int],
    *,
    commit: bool | None = True,
    partition: int = 0,
    key: bytes | None = None,
) -> None:
    """Writes one transaction with a record for each time. With ``commit=None`` it stays open."""
    producer.begin_transaction()
    sent = [producer.send(topic, b"%d" % t, key, partition=partition, timestamp_ms=t) for t in times]
    producer.flush()
    for future in sent:
        future.get(timeout=30)
    if commit is not None:
        (producer.commit_transaction if commit else producer.abort_transaction)()


def settle(broker: KafkaBroker, topic: str, partition: int = 0) -> None:
    """Waits until all transactions have ended. Markers are written after the producer has its answer."""
    client = KafkaClient(ConnectionOptions(broker.bootstrap_servers))
    tp = TopicPartition(topic, partition)

    def settled() -> bool:
        committed, all_records = (client.end_offsets([tp], read_committed=level) for level in (True, False))
        return committed == all_records

    try:
        wait_until(settled, f"the transactions on {tp} to end")
    finally:
        client.close()


def write_rows(broker: KafkaBroker, topic: str, count: int, partition: int = 0) -> None:
    broker.write(topic, [(partition, 1000 * i, None, b"%d" % i) for i in range(count)])


def delete_records(broker: KafkaBroker, topic: str, before: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        admin.delete_records({KafkaPythonPartition(topic, 0): before})
    finally:
        admin.close()


def add_partitions(broker: KafkaBroker, topic: str, total: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        admin.create_partitions({topic: NewPartitions(total)})
    finally:
        admin.close()
