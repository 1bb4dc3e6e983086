"""The records of the benchmarks' topics, the same in every run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flip27_stream.testing import KafkaBroker, write_bulk
from flip27_stream.testing.kafka.bulk import Codec

START_MS = 1_700_000_000_000
JSON_SCHEMA = "id bigint, user string, page string, country string, cents bigint, share double"
"""The six fields of :func:`json_values`."""

_WORD_BYTES = 5
_COUNTRIES = ("de", "fr", "in", "jp", "ke", "us")


@dataclass(frozen=True)
class WrittenTopic:
    """A topic whose records are written before it is read, one record a millisecond in each partition.

    Values are words drawn at random, which lz4 shrinks to some two thirds, or JSON objects of six fields.
    """

    records: int
    value_bytes: int = 100
    json: bool = False
    compression: Codec | None = None
    partitions: int = 4
    batch_records: int = 8192
    batch_bytes: int = 900_000

    @property
    def topic(self) -> str:
        kind = "json" if self.json else f"{self.value_bytes}-bytes"
        batches = f"{self.batch_records}-{self.batch_bytes}"
        return f"{self.records}-{kind}-{self.compression or 'plain'}-{self.partitions}-{batches}"

    def write(self, broker: KafkaBroker) -> int:
        """Creates the topic, and returns the total size (bytes) of its values."""
        broker.create_topic(self.topic, self.partitions, {"max.message.bytes": str(2 * self.batch_bytes)})
        count, total = self.records // self.partitions, 0
        times = START_MS + np.arange(count, dtype=np.int64)
        for partition in range(self.partitions):
            values = (
                json_values(count, partition)
                if self.json
                else word_values(count, self.value_bytes, partition)
            )
            total += values.buffers()[2].size
            write_bulk(
                broker.bootstrap_servers,
                self.topic,
                partition,
                times,
                values,
                compression=self.compression,
                batch_records=self.batch_records,
                max_batch_bytes=self.batch_bytes,
            )
        return total


def word_values(count: int, value_bytes: int, seed: int) -> pa.BinaryArray:
    """Returns values of equal size, made of words out of a thousand."""
    random = np.random.default_rng(seed)
    words = random.integers(97, 123, (1000, _WORD_BYTES), np.uint8)
    chosen = random.integers(0, len(words), count * value_bytes // _WORD_BYTES, np.uint16)
    bounds = value_bytes * np.arange(count + 1, dtype=np.int32)
    data = pa.py_buffer(words[chosen].tobytes())
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds.tobytes()), data])


def json_values(count: int, seed: int) -> pa.BinaryArray:
    """Returns JSON objects of :data:`JSON_SCHEMA`, about 110 bytes each."""
    random = np.random.default_rng(seed)
    numbers = zip(
        random.integers(0, 100_000, count).tolist(),
        random.integers(0, 1000, count).tolist(),
        random.integers(0, len(_COUNTRIES), count).tolist(),
        random.integers(0, 1_000_000, count).tolist(),
        random.random(count).round(4).tolist(),
        strict=True,
    )
    return pa.array(
        [
            (
                f'{{"id": {number}, "user": "user-{user}", "page": "/products/{page}", '
                f'"country": "{_COUNTRIES[country]}", "cents": {cents}, "share": {share}}}'
            ).encode()
            for number, (user, page, country, cents, share) in enumerate(numbers)
        ],
        pa.binary(),
    )
