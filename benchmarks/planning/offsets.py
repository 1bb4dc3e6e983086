"""Measures the size of an offset document, and the time to write and to read it.

``python -m benchmarks.planning.offsets``
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from flip27_stream.api import JsonValue, SimpleVersionedSerializer, SourceSplit
from offsets import Offset, OffsetCodec, SplitState, ranges

ROUNDS = 20
NOW = 1_760_000_000_000


@dataclass(frozen=True)
class IdSplit(SourceSplit):
    """A split that consists of its id only."""

    name: str

    @property
    def split_id(self) -> str:
        return self.name

    def between(self, start: int, end: int) -> IdSplit:
        return self


class PartitionSerializer(SimpleVersionedSerializer[IdSplit]):
    version = 1

    def serialize(self, value: IdSplit) -> JsonValue:
        return value.name

    def deserialize(self, version: int, data: JsonValue) -> IdSplit:
        return IdSplit(str(data))


class NothingSerializer(SimpleVersionedSerializer[None]):
    version = 1

    def serialize(self, value: None) -> JsonValue:
        return None

    def deserialize(self, version: int, data: JsonValue) -> None:
        return None


def offset(splits: int, batch: int, position: int) -> Offset[None]:
    """Returns an offset with partitions of one topic with a long name, all seen at their ends.

    In batch 0 it has a begin.
    """
    names = [f"prod.eu-west-1.payments.transaction-authorised.v2-{number}" for number in range(splits)]
    states = {name: SplitState(IdSplit(name), position, NOW, NOW) for name in names}
    begin = dict.fromkeys(names, 1_200_000_000) if batch == 0 else {}
    return Offset("benchmark", "9f86d081884c7d65", batch, None, states, begin, NOW)


def milliseconds(call: Callable[[], object]) -> float:
    """Returns the least time (ms) of a few rounds."""
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times) * 1000


def main() -> None:
    codec = OffsetCodec("benchmark", PartitionSerializer(), NothingSerializer())
    print(f"{'splits':>7} {'batch':>5} {'bytes':>9} {'to_json ms':>10} {'from_json ms':>12} {'ranges ms':>9}")
    for splits in (1_000, 10_000):
        first, second = offset(splits, 0, 1_234_567_890), offset(splits, 1, 1_234_600_000)
        for start, end in ((None, first), (first, second)):
            text = json.dumps(codec.to_json(end))
            document = json.loads(text)
            write = milliseconds(lambda end=end: codec.to_json(end))  # type: ignore[misc]
            read = milliseconds(lambda document=document: codec.from_json(document))  # type: ignore[misc]
            plan = milliseconds(lambda start=start, end=end: ranges(start, end))  # type: ignore[misc]
            print(f"{splits:>7} {end.batch:>5} {len(text):>9} {write:>10.2f} {read:>12.2f} {plan:>9.2f}")


if __name__ == "__main__":
    main()
