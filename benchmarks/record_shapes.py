"""Measures reading of records in shapes that the read benchmark does not have, beside the built-in source.

They have batches of few records, as of producers that do not wait, keys, values of many sizes, headers, many
partitions, very small and very large values, and other codecs. ``python -m benchmarks.record_shapes``
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from kafka import KafkaProducer

from benchmarks.support.backlog import START_MS, word_values
from benchmarks.support.command import run
from benchmarks.support.environment import Environment
from benchmarks.support.results import Result, at_least
from benchmarks.support.streams import BUILTIN, OURS, drain, stream
from benchmarks.support.turns import pairs, speeds
from flip27_stream.testing import write_bulk
from flip27_stream.testing.kafka.bulk import Codec

_KEY_BYTES = 15
_HEADERS = [("trace", b"0123456789abcdef"), ("type", b"click")]
_VALUE = b"v" * 200


@dataclass(frozen=True)
class RecordShape:
    """A shape of records.

    Attributes:
        batch_records: The number of records in a batch.
        share: The number of records, as a share of those of other benchmarks.
        least_bytes: The size of the smallest value in bytes.
        greatest_bytes: The size of the largest value in bytes.
        with_keys: Whether records have keys.
        compression: The codec.
        partitions: The number of partitions.
    """

    batch_records: int
    share: float
    least_bytes: int = 50
    greatest_bytes: int = 500
    with_keys: bool = True
    compression: Codec | None = None
    partitions: int = 4

    def write(self, environment: Environment, topic: str) -> tuple[int, int]:
        """Writes the records, and returns their number and the total size of their values in bytes."""
        count = max(1, int(environment.sizes.records * self.share) // self.partitions)
        times, total = START_MS + np.arange(count, dtype=np.int64), 0
        for partition in range(self.partitions):
            values = _varied_values(count, self.least_bytes, self.greatest_bytes, partition)
            total += values.buffers()[2].size
            write_bulk(
                environment.broker.bootstrap_servers,
                topic,
                partition,
                times,
                values,
                keys=word_values(count, _KEY_BYTES, partition) if self.with_keys else None,
                compression=self.compression,
                batch_records=self.batch_records,
            )
        return count * self.partitions, total

    def __str__(self) -> str:
        least, greatest = self.least_bytes, self.greatest_bytes
        parts = [
            f"{least:,} B" if least == greatest else f"{least:,} to {greatest:,} B",
            f"batches of {self.batch_records:,}",
            *(["keys"] if self.with_keys else []),
            self.compression or "no codec",
            *([f"{self.partitions} partitions"] if self.partitions != RecordShape.partitions else []),
        ]
        return ", ".join(parts)


SHAPES = [
    RecordShape(1, 0.1),
    RecordShape(5, 0.2),
    RecordShape(20, 0.3),
    RecordShape(100, 1),
    RecordShape(20, 0.3, compression="lz4"),
    RecordShape(20, 0.3, compression="zstd"),
    RecordShape(1000, 1, compression="snappy"),
    RecordShape(100, 0.75, compression="gzip"),
    RecordShape(500, 3, 20, 20, with_keys=False),
    RecordShape(8, 0.005, 100_000, 100_000, with_keys=False),
    RecordShape(150, 2, 100, 100, with_keys=False, partitions=40),
]


def measure(environment: Environment) -> Iterator[Result]:
    for shape in SHAPES[: environment.sizes.shapes]:
        topic = environment.empty_topic(shape.partitions)
        rows, size = shape.write(environment, topic)
        yield _compared(environment, str(shape), topic, rows, size)
    topic, rows = environment.empty_topic(4), environment.sizes.records // 5
    _write_with_headers(environment, topic, rows)
    work = f"{len(_VALUE)} B, keys, {len(_HEADERS)} headers"
    yield _compared(environment, work, topic, rows, rows * len(_VALUE), includeHeaders="true")


def _compared(
    environment: Environment, work: str, topic: str, rows: int, size: int, **options: str
) -> Result:
    def builtin() -> float:
        return sum(drain(stream(environment, BUILTIN, topic, **options), rows))

    def ours() -> float:
        return sum(drain(stream(environment, OURS, topic, **options), rows))

    seconds = pairs(builtin, ours, environment.sizes.pairs, environment.sizes.warm_up)
    return speeds(work, rows, size, seconds, at_least(1))


def _varied_values(count: int, least: int, greatest: int, seed: int) -> pa.BinaryArray:
    """Returns values of random sizes, made of words."""
    sizes = np.random.default_rng(seed).integers(least, greatest + 1, count)
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    words = word_values(1, 5 * (int(bounds[-1]) // 5 + 1), seed).buffers()[2]
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(bounds.tobytes()), words.slice(0, bounds[-1])]
    )


def _write_with_headers(environment: Environment, topic: str, rows: int) -> None:
    servers = environment.broker.bootstrap_servers
    with closing(KafkaProducer(bootstrap_servers=servers, linger_ms=20, batch_size=65_536)) as producer:
        for number in range(rows):
            producer.send(topic, _VALUE, b"key-%d" % number, _HEADERS, partition=number % 4)
        producer.flush()


if __name__ == "__main__":
    run([measure])
