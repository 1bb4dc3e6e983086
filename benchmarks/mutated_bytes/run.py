"""Makes responses, damages them, reads them with both decoders, and compares the rows."""

from __future__ import annotations

import random
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer import FetchResponse as TheirResponse

from benchmarks.mutated_bytes.damage import (
    damaged_bytes,
    damaged_header,
    damaged_records,
    old_messages,
    sealed,
)
from benchmarks.mutated_bytes.healthy import ASKED, PRODUCER, TP, Frame, batches, frames
from flip27_stream.connectors.kafka.client.protocol import FetchedPartition, fetched_partitions
from flip27_stream.connectors.kafka.fetching.fetch_responses import FetchResponse, read_fetch_response
from flip27_stream.connectors.kafka.records import (
    binary_columns,
    compression,
    record_batches,
    record_headers,
    record_lanes,
    record_starts,
    records_scalar,
)
from flip27_stream.connectors.kafka.records.record_batches import DecodedRecords, decode
from flip27_stream.errors import ConnectorError, CorruptRecordError
from tests.connectors.kafka.support.batch_bytes import rows_of
from tests.connectors.kafka.support.reference_decoder import by_kafka_python

PLACES = {"frame": 12, "fields": 33, "bytes": 8, "packed": 15, "header": 17, "old": 10, "nowhere": 5}
"""The places of damage, and how many of a hundred responses are damaged there."""

_CORPUS = 400
_TURN, _MANY_EVERY = 1000, 4
_MOST_WRONG = 20
_LARGEST_BATCH = 1 << 20
_END = 2**63 - 1
_SOURCE = "partition 3 of topic clicks"


Aborted = tuple[tuple[int, int], ...]
"""Transactions, each as producer id and first offset."""


@dataclass(frozen=True)
class Case:
    """A damaged response.

    Attributes:
        place: The place of the damage.
        frame: The bytes around the records.
        body: The whole response.
        records: The records of its first partition; empty if the damage is in the frame.
        start: The offset at which the fetch began.
        aborted: The aborted transactions; ``None`` if the reader reads uncommitted records too.
    """

    place: str
    frame: Frame
    body: bytes
    records: bytes
    start: int = 0
    aborted: Aborted | None = None

    def __str__(self) -> str:
        return (
            f"damage in {self.place}, version {self.frame.version}, start {self.start}, aborted {self.aborted}: "
            f"{self.body.hex()}"
        )


class Cases:
    """Yields damaged responses without end, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._batches = batches(self._chance, _CORPUS)
        self._frames = frames()
        self._places, self._weights = list(PLACES), list(PLACES.values())

    def next(self) -> Case:
        chance = self._chance
        (place,) = chance.choices(self._places, self._weights)
        frame = chance.choice(self._frames)
        if place == "frame":
            return self._in_frame(frame)
        records = old_messages(chance) if place == "old" else self._records(place)
        start, aborted = 0, None
        if chance.random() < 0.1:
            start = chance.randrange(1, 5)
            aborted = ((PRODUCER, 0),) if chance.random() < 0.7 else ()
            healthy = self._chance.choice(self._batches)
            records = sealed(healthy.header, healthy.packed, healthy.codec) + _moved(records, 100)
        return Case(place, frame, frame.around(records), records, start, aborted)

    def _in_frame(self, frame: Frame) -> Case:
        batch = self._chance.choice(self._batches)
        records = sealed(batch.header, batch.packed, batch.codec)
        before, behind = frame.before + frame.size(len(records)), frame.behind
        if self._chance.random() < 0.7:
            before = damaged_bytes(self._chance, before)
        else:
            behind = damaged_bytes(self._chance, behind)
        return Case("frame", frame, before + records + behind, b"")

    def _records(self, place: str) -> bytes:
        chance, batch = self._chance, self._chance.choice(self._batches)
        header, packed = batch.header, batch.packed
        if place == "fields":
            packed = batch.pack(damaged_records(chance, batch))
        elif place == "bytes":
            packed = batch.pack(damaged_bytes(chance, batch.records))
        elif place == "packed":
            packed = damaged_bytes(chance, packed)
        elif place == "header":
            header = damaged_header(chance, header)
        return sealed(header, packed, batch.codec)


@dataclass
class Findings:
    """The results of a run.

    Attributes:
        outcomes: The number of responses, by place of the damage and by outcome.
        rows: The number of rows that were read and compared.
        wrong: The responses that were read wrongly, or made something fail.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    rows: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def responses(self) -> int:
        return sum(self.outcomes.values())


class Comparison:
    """Reads responses with both decoders.

    A wrong result is another row than the reference has, a row where the reference has none, or any error but those
    that say that bytes are damaged. It is not wrong to refuse what the reference reads: Java's client is stricter,
    too.
    """

    def __init__(self) -> None:
        self.findings = Findings()

    def take(self, case: Case) -> None:
        """Reads a response with both decoders, and compares the results."""
        try:
            outcome = self._outcome(case)
            if case.place == "nowhere":
                assert outcome == "read", "a response without damage was refused"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            outcome = "WRONG"
            self.findings.wrong.append(f"{type(error).__name__} {str(error)[:300]} {case}")
        self.findings.outcomes[case.place, outcome] += 1

    def _outcome(self, case: Case) -> str:
        response = self._parsed(case)
        if response is None:
            return "refused"
        if case.place == "frame":
            return self._compare_frames(case, response)
        records = bytes(response.partitions[TP].records)
        assert records == case.records
        return self._read(records, case.start, case.aborted)

    def _parsed(self, case: Case) -> FetchResponse | None:
        try:
            return read_fetch_response(memoryview(case.body), case.frame.version, ASKED)
        except (struct.error, OSError, ConnectorError):
            assert case.place == "frame", "nothing is wrong with the frame"
            return None

    def _compare_frames(self, case: Case, response: FetchResponse) -> str:
        ours = {tp: (p.error, bytes(p.records), p.aborted) for tp, p in response.partitions.items()}
        theirs = _by_kafka_python(case)
        if theirs is not None:
            assert ours == {tp: (p.error, bytes(p.records), p.aborted) for tp, p in theirs.items()}
        for _, records, aborted in ours.values():
            self._read(records, 0, tuple(aborted))
        return "read" if theirs is not None else "read, refused by kafka-python"

    def _read(self, records: bytes, start: int, aborted: Aborted | None) -> str:
        """Returns the outcome of the records; raises :class:`AssertionError` if rows are wrong."""
        try:
            decoded = decode(records, start, _END, source=_SOURCE, headers=True, aborted=aborted)
        except CorruptRecordError:
            return "refused"
        rows = rows_of(decoded)
        self._compare_columns(records, start, aborted, decoded)
        try:
            theirs = by_kafka_python(records, start, decoded.next_offset, aborted)
        except zlib.error:  # gzip data refer to bytes before their beginning; gzip's own checksum was right
            return "read, refused by kafka-python"
        assert rows == theirs
        self.findings.rows += len(rows)
        return "read"

    @staticmethod
    def _compare_columns(records: bytes, start: int, aborted: Aborted | None, whole: DecodedRecords) -> None:
        """Compares the columns that planning reads, which are offsets and times."""
        alone = decode(records, start, _END, source=_SOURCE, keys=False, values=False, aborted=aborted)
        assert alone.next_offset == whole.next_offset
        assert alone.records.offsets.tolist() == whole.records.offsets.tolist()
        assert alone.records.timestamps.tolist() == whole.records.timestamps.tolist()


def compare(responses: int, seed: int, look: Callable[[Findings], None] = lambda _: None) -> Findings:
    """Makes and reads damaged responses, and returns the findings.

    Every fourth thousand is read in the decoder's ways for many records.

    Args:
        responses: The number of responses.
        seed: The seed of the damage.
        look: Called with the findings before each thousand.
    """
    cases, comparison = Cases(seed), Comparison()
    findings = comparison.findings
    while findings.responses < responses and len(findings.wrong) < _MOST_WRONG:
        look(findings)
        turn = findings.responses // _TURN
        with _limits(many=turn % _MANY_EVERY == 0, large=turn % (2 * _MANY_EVERY) == 0):
            for _ in range(min(_TURN, responses - findings.responses)):
                comparison.take(cases.next())
    return findings


@contextmanager
def _limits(*, many: bool, large: bool) -> Iterator[None]:
    """Limits batches to 1 MiB. With ``many``, the decoder reads few records in its ways for many.

    With ``large``, it reads small batches and values in its ways for large ones.
    """
    limits: list[tuple[Any, str, int]] = [
        (compression, "LARGEST_BATCH", _LARGEST_BATCH),
        (record_batches, "LARGEST_BATCH", _LARGEST_BATCH),
    ]
    if many:
        limits += [
            (records_scalar, "FEW", 0),
            (record_lanes, "_RECORDS_OF_STEP", 0),
            (record_lanes, "_RECORDS_OF_LANE", 2),
            (record_lanes, "_HOPS", 1),
            (record_headers, "_FEW_RECORDS", 1),
        ]
    if large:
        limits += [
            (binary_columns, "_LARGE", 0),
            (record_starts, "_MANY", 1),
            (record_starts, "_FEWEST_RUNS", 3),
            (record_starts, "_SHORT_RUN", 2),
        ]
    before = [getattr(module, name) for module, name, _ in limits]
    try:
        for module, name, limit in limits:
            setattr(module, name, limit)
        yield
    finally:
        for (module, name, _), value in zip(limits, before, strict=True):
            setattr(module, name, value)


def _by_kafka_python(case: Case) -> dict[Any, FetchedPartition] | None:
    """Returns what kafka-python reads, or ``None`` if it cannot be compared.

    It refuses the frame, or the frame has a tagged field, since it reads some of these beyond their size.
    """
    try:
        response = TheirResponse.decode(b"\0\0\0\1" + case.body, version=case.frame.version, header=True)
        answers = [p for topic in response.responses or () for p in topic.partitions or ()]
    except Exception:  # noqa: BLE001 - of many kinds
        return None
    tagged = [tag for p in answers for tag in (p.diverging_epoch, p.current_leader, p.snapshot_id)]
    return None if any(tag is not None for tag in tagged) else fetched_partitions(response, ASKED)


def _moved(records: bytes, by: int) -> bytes:
    offset = int.from_bytes(records[:8], "big", signed=True) + by
    return (offset % 2**64).to_bytes(8, "big") + records[8:]
