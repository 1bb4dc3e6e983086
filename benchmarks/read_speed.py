"""Measures reading in the shapes that are usual in practice.

The shapes are batches of a producer and of bulk loads, small and large values, with and without a codec.

150 records are what fills the default batch of a Java producer with 100-byte values. Each shape is read by the
built-in source, by ours, and by the ceiling: a Python source that has its Arrow batches ready. All three take turns.
CPU time is measured for each process, since the broker shares the cores and wall time alone misleads. Twice as many
rounds as in other benchmarks do not count, because the JVM goes on compiling for some eight rounds.

``python -m benchmarks.read_speed --records 6000000``; a quick look takes ``--records 400000 --pairs 2 --shapes 4``,
of which the last is the number of shapes, in the order of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from benchmarks.ceiling import emitted, topic_reader
from benchmarks.support.backlog import WrittenTopic
from benchmarks.support.command import run
from benchmarks.support.constant_source import constant_source
from benchmarks.support.coordinators import alignment_options
from benchmarks.support.environment import Environment
from benchmarks.support.folders import temporary_folder
from benchmarks.support.metered import Metered, cpu_a_row
from benchmarks.support.results import Result, at_least
from benchmarks.support.streams import BUILTIN, OURS, drain, stream
from benchmarks.support.turns import Contender, Pairs, pairs, speeds, take_turns
from flip27_stream.testing.kafka.bulk import Codec

_CODECS: tuple[Codec | None, ...] = (None, "lz4", "zstd")
_BATCHES = (150, 8192)
_SPEED = {100: at_least(3.3), 1000: at_least(2.4), 10_000: at_least(1.9)}
_SHARE = {(100, 150): at_least(62), (100, 8192): at_least(75)}
_COMPRESSED_SPEED = at_least(1.0)  # Decompression takes the same time in both sources.
_CEILING = "ceiling"


@dataclass(frozen=True)
class RecordLayout:
    """How records are laid out. Batches of values of 10 kB have fewer records: brokers refuse more than a mebibyte."""

    value_bytes: int
    batch_records: int
    compression: Codec | None

    def backlog(self, records: int) -> WrittenTopic:
        """Returns a topic of about as many bytes as one of ``records`` values of 400 bytes, or of fewer."""
        fewer = max(1, self.value_bytes // 250)
        return WrittenTopic(
            4 * max(1, records // fewer // 4),
            value_bytes=self.value_bytes,
            compression=self.compression,
            batch_records=self.batch_records,
        )

    def __str__(self) -> str:
        codec = self.compression or "no codec"
        return f"{self.value_bytes:,} B, batches of {self.batch_records:,}, {codec}"


SHAPES = [
    RecordLayout(size, batch, codec) for codec, size, batch in product(_CODECS, (100, 1000, 10_000), _BATCHES)
]


def measure(environment: Environment) -> Iterator[Result]:
    for shape in SHAPES[: environment.sizes.shapes]:
        yield from _compare(environment, shape)
    with temporary_folder() as table:
        yield _aligned(environment, SHAPES[1].backlog(environment.sizes.records), table)


def _compare(environment: Environment, shape: RecordLayout) -> Iterator[Result]:
    backlog = shape.backlog(environment.sizes.records)
    size = environment.value_bytes(backlog)
    reading = emitted(topic_reader(environment, backlog.topic))
    with temporary_folder() as folder:
        environment.spark.dataSource.register(constant_source(reading.largest, reading.rows, Path(folder)))

        def kafka(source: str) -> Callable[[], float]:
            return lambda: sum(drain(stream(environment, source, backlog.topic), backlog.records))

        def ceiling() -> float:
            return sum(drain(environment.spark.readStream.format("constant").load(), backlog.records))

        builtin, ours = (Metered(kafka(source), environment.broker.pid) for source in (BUILTIN, OURS))
        contenders: dict[str, Contender] = {BUILTIN: builtin, OURS: ours, _CEILING: ceiling}
        seconds = take_turns(contenders, environment.sizes.pairs, 2 * environment.sizes.warm_up)
    speed = Pairs(seconds[BUILTIN], seconds[OURS])
    share = Pairs(seconds[_CEILING], seconds[OURS])
    targets = (_SPEED[shape.value_bytes], _SHARE.get((shape.value_bytes, shape.batch_records)))
    if shape.compression is not None:
        targets = (_COMPRESSED_SPEED, None)
    yield speeds(f"{shape}", backlog.records, size, speed, targets[0])
    yield speeds(f"{shape}: share of the ceiling", backlog.records, size, share, targets[1], percent=True)
    yield cpu_a_row(f"{shape}", backlog.records, builtin, ours, environment.sizes.pairs)


def _aligned(environment: Environment, backlog: WrittenTopic, table: str) -> Result:
    size = environment.value_bytes(backlog)
    alignment = alignment_options(table)

    def builtin() -> float:
        return sum(drain(stream(environment, BUILTIN, backlog.topic), backlog.records))

    def ours() -> float:
        return sum(drain(stream(environment, OURS, backlog.topic, **alignment), backlog.records))

    seconds = pairs(builtin, ours, environment.sizes.pairs, 2 * environment.sizes.warm_up)
    return speeds(f"{SHAPES[1]}, ours aligned", backlog.records, size, seconds)


if __name__ == "__main__":
    run([measure])
