"""Measures how fast record batches are decoded into columns, on one core and without a broker.

``python -m benchmarks.decode`` takes about 20 seconds.

CPU time counts instead of wall time, so that other processes disturb it less.

Values are 100 bytes on average, unless the name says otherwise. 150 records are what fills a Java producer's default
batch of 16 KB.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cramjam
from crc32c import crc32c
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder

from flip27_stream.connectors.kafka.records.compression import CODECS
from flip27_stream.connectors.kafka.records.record_batches import decode

_HEADER = 61
_ALPHABET = b"abcdefghijklmnopqrstuvwxyz0123456789"
_COMPRESS: list[Callable[[bytes], Any]] = [
    bytes,
    cramjam.gzip.compress,
    cramjam.snappy.compress_raw,
    cramjam.lz4.compress,
    cramjam.zstd.compress,
]


class Shape(NamedTuple):
    """The shape of the records of one row of the table."""

    name: str
    batch: int = 150
    sizes: tuple[int, int] = (100, 100)
    disorder: int = 0
    keys: bool = False
    headers: tuple[tuple[str, bytes], ...] = ()
    codecs: tuple[int, ...] = (0,)
    records: int = 60_000


SHAPES = (
    Shape("equal sizes", codecs=(0, 1, 2, 3, 4)),
    Shape("equal sizes, batches of 8,192", batch=8192, codecs=(0, 3)),
    Shape("varied sizes", sizes=(40, 160), codecs=(0, 3)),
    Shape("varied sizes, batches of 8,192", batch=8192, sizes=(40, 160), codecs=(0, 3)),
    Shape("varied sizes, keys, times in disorder", sizes=(40, 160), disorder=600_000, keys=True),
    Shape("varied sizes, one header", sizes=(40, 160), headers=(("trace", b"0123456789abcdef"),)),
    Shape("varied sizes, batches of 10", batch=10, sizes=(40, 160)),
    Shape("500 to 1,500 bytes", sizes=(500, 1500)),
    Shape("5,000 to 15,000 bytes", batch=85, sizes=(5000, 15_000), records=6_000),
)


def _batches(shape: Shape) -> Iterator[bytes]:
    chance = random.Random(27)
    text = bytes(chance.choices(_ALPHABET, k=1 << 16))
    for base in range(0, shape.records, shape.batch):
        builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 30)
        for i in range(min(shape.batch, shape.records - base)):
            at, size = chance.randrange(1 << 15), chance.randint(*shape.sizes)
            at_ms = 1_700_000_000_000 + (base + i) // 10 + chance.randint(0, shape.disorder)
            key = b"user-%05d" % chance.randrange(10_000) if shape.keys else None
            builder.append(
                i, at_ms, key, text[at : at + size // 2] * 2 + text[: size % 2], list(shape.headers)
            )
        batch = builder.build()
        struct.pack_into(">q", batch, 0, base)
        yield bytes(batch)


def _compressed(batch: bytes, codec: int) -> bytes:
    records = bytes(_COMPRESS[codec](batch[_HEADER:]))
    header = bytearray(batch[:_HEADER])
    struct.pack_into(">i", header, 8, _HEADER - 12 + len(records))
    struct.pack_into(">h", header, 21, codec)
    struct.pack_into(">I", header, 17, crc32c(bytes(header[21:]) + records))
    return bytes(header) + records


def _seconds(run: Callable[[], int], records: int, repetitions: int) -> float:
    best = float("inf")
    for _ in range(repetitions):
        began = time.process_time()
        assert run() == records
        best = min(best, time.process_time() - began)
    return best


def main() -> None:
    """Prints the CPU time and the speed of each shape, best of fifteen rounds, and those of kafka-python.

    The speed is in records/s and MB/s (decompressed).
    """
    print(f"{'records':<40}{'codec':>8}{'ns/record':>11}{'M records/s':>13}{'MB/s':>8}")
    first: bytes | None = None
    for shape in SHAPES:
        batches = list(_batches(shape))
        for codec in shape.codecs:
            log = b"".join(_compressed(batch, codec) for batch in batches)
            first = first or log

            def columns(log: bytes = log, shape: Shape = shape) -> int:
                headers = bool(shape.headers)
                return len(decode(log, 0, shape.records, source="benchmark", headers=headers).records)

            seconds = _seconds(columns, shape.records, 15)
            _print(shape.name, CODECS[codec], shape.records / seconds, sum(map(len, batches)) / seconds)
    assert first is not None
    records = SHAPES[0].records
    seconds = _seconds(lambda: sum(1 for batch in MemoryRecords(first) for _ in batch), records, 1)
    _print("kafka-python, equal sizes", CODECS[0], records / seconds, len(first) / seconds)


def _print(name: str, codec: str, records_s: float, bytes_s: float) -> None:
    print(f"{name:<40}{codec:>8}{1e9 / records_s:>11.0f}{records_s / 1e6:>13.2f}{bytes_s / 1e6:>8.0f}")


if __name__ == "__main__":
    main()
