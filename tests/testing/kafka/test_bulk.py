"""Record batches that the test kit lays out in bulk are read by Kafka's Python client and accepted by a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from flip27_stream.errors import MissingTopicError
from flip27_stream.testing import KafkaBroker, write_bulk
from flip27_stream.testing.kafka.bulk import Codec, _batch_bounds, encode_batch
from tests.testing.support.reading import read

CODECS: list[Codec | None] = [None, *get_args(Codec)]

blobs = st.none() | st.binary(max_size=200)
rows = st.tuples(st.integers(0, 2**45), blobs, blobs)


def decoded(batch: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    parsed = DefaultRecordBatch(batch)
    assert parsed.validate_crc()
    return [(record.offset, record.timestamp, record.key, record.value) for record in parsed]


@given(st.lists(rows, min_size=1, max_size=40), st.sampled_from(CODECS), st.integers(0, 3))
def test_a_batch_decodes_to_its_records(
    records: list[tuple[int, bytes | None, bytes | None]], codec: Codec | None, skipped: int
) -> None:
    times = np.array([record[0] for record in records])
    keys, values = (
        # Sliced, so that the arrays do not begin where their buffers do.
        pa.array([b"?"] * skipped + [record[column] for record in records], pa.binary())[skipped:]
        for column in (1, 2)
    )
    batch = encode_batch(times, values, keys, codec)
    assert decoded(batch) == [(offset, *record) for offset, record in enumerate(records)]
    assert DefaultRecordBatch(batch).max_timestamp == max(times)


def test_values_of_one_length_are_encoded() -> None:
    values = pa.array([bytes([number]) * 100 for number in range(200)], pa.binary())
    batch = encode_batch(np.arange(200), values)
    assert decoded(batch) == [(n, n, None, bytes([n]) * 100) for n in range(200)]


@pytest.mark.jvm
@pytest.mark.parametrize("codec", CODECS)
def test_a_consumer_reads_what_was_written(
    broker: KafkaBroker, topic: Callable[..., str], codec: Codec | None
) -> None:
    name, count = topic(), 20_000
    values = pa.array([b"%d" % number for number in range(count)], pa.binary())
    times = np.arange(count) * 7 + 1_000
    for part in (slice(0, 12_345), slice(12_345, None)):
        first = write_bulk(broker.bootstrap_servers, name, 0, times[part], values[part], compression=codec)
        assert first == part.start
    found = read(broker.bootstrap_servers, name)
    assert [record.offset for record in found] == list(range(count))
    assert [record.timestamp for record in found] == times.tolist()
    assert [record.value for record in found] == values.to_pylist()


@pytest.mark.parametrize(("limit", "sizes"), [(900_000, [2, 2, 1]), (5_000_000, [4, 1]), (1000, [1] * 5)])
def test_a_batch_has_at_most_so_many_bytes(limit: int, sizes: list[int]) -> None:
    """A batch stays within its limits of records and bytes.

    A record that is larger than the limit is a batch of its own.
    """
    values = pa.array([b"x" * 400_000] * 5, pa.binary())
    found = list(_batch_bounds(5, values, None, batch_records=4, max_bytes=limit))
    assert [end - start for start, end in found] == sizes


@pytest.mark.jvm
def test_large_values_are_spread_over_batches(broker: KafkaBroker, topic: Callable[..., str]) -> None:
    name = topic()
    write_bulk(broker.bootstrap_servers, name, 0, np.arange(30), b"x" * 300_000)
    assert [len(record.value) for record in read(broker.bootstrap_servers, name)] == [300_000] * 30


@pytest.mark.jvm
def test_a_missing_partition_is_named(broker: KafkaBroker, topic: Callable[..., str]) -> None:
    name = topic()
    with pytest.raises(MissingTopicError, match=f"Partition 5 of topic '{name}'"):
        write_bulk(broker.bootstrap_servers, name, 5, np.arange(3), b"x")
