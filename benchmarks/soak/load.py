"""The load of the soak test.

The speed of each partition changes from time to time, so that skew begins, grows and ends.

Event times of a partition rise, up to some disorder, at a speed that differs from period to period. After a short
silence a partition continues at its last event time, and so behind the others. After a silence that makes it idle, it
continues ahead of all the others: the guarantee that is checked here does not cover a partition that comes back from
idleness behind the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from kafka import KafkaProducer

from flip27_stream.wall_clock import now_ms

if TYPE_CHECKING:
    from typing_extensions import Self

DISORDER_MS = 500
IDLE_TIMEOUT_S = 20
SHORT_SILENCE_S = 1.0, 8.0
LONG_SILENCE_S = 25.0, 40.0
MOST_BEHIND_MS = 30_000
AHEAD_MS = 5_000

_LINGER_MS = 50


@dataclass(frozen=True)
class LoadPeriod:
    """A time with one rate of records (per second) and one speed of event time (times that of the clock)."""

    seconds: float
    rate: float
    speed: float

    @property
    def is_silent(self) -> bool:
        return self.rate == 0


def load_periods(
    chance: random.Random, long_silence_s: tuple[float, float] = LONG_SILENCE_S
) -> Iterator[LoadPeriod]:
    """Yields periods of load without end.

    A silence never follows a silence, since both together could be longer than intended.
    """
    while True:
        kind = chance.random()
        if kind < 0.15:
            yield LoadPeriod(chance.uniform(*SHORT_SILENCE_S), 0, 0)
        elif kind < 0.2:
            yield LoadPeriod(chance.uniform(*long_silence_s), 0, 0)
        elif kind < 0.4:
            yield LoadPeriod(chance.uniform(0.5, 2), chance.uniform(400, 1200), chance.uniform(1, 5))
        yield LoadPeriod(
            chance.uniform(3, 12), max(3, chance.lognormvariate(2.7, 0.8)), chance.uniform(0.1, 1.9)
        )


class Feed:
    """The load of one partition, with the event times (ms since the epoch) of the records that are due.

    Args:
        chance: The random generator.
        begin: The clock at the first record, and the event time of that record.
        long_silence_s: The shortest and the longest length (s) of a silence that makes a partition idle.
    """

    def __init__(
        self, chance: random.Random, begin: int, long_silence_s: tuple[float, float] = LONG_SILENCE_S
    ) -> None:
        self.produced = 0
        self._chance = chance
        self._clock = self._over = begin
        self._time: float = begin
        self._owed = 0.0
        self._long_silence_s = long_silence_s
        self._periods = load_periods(chance, long_silence_s)
        self._period = LoadPeriod(0, 1, 1)

    @property
    def newest(self) -> int:
        """The greatest event time of the records so far."""
        return int(self._time)

    def one(self, time_ms: int) -> list[int]:
        """Returns the event time of an additional record at ``time_ms``.

        The event times of the partition go on from it.
        """
        self._clock, self._time = time_ms, max(self._time, time_ms)
        self.produced += 1
        return [time_ms]

    def due(self, now: int) -> list[int]:
        """Returns the event times of the records that are due since the last call; ``now`` is the clock (ms)."""
        period, passed_ms = self._period, now - self._clock
        self._clock = now
        if now >= self._over:
            self._turn(now)
        if period.is_silent:
            return []
        before, after = self._time, min(self._time + period.speed * passed_ms, now)
        self._time = max(before, after, now - MOST_BEHIND_MS)
        self._owed += period.rate * passed_ms / 1000
        count = int(self._owed)
        self._owed -= count
        self.produced += count
        step = (self._time - before) / max(count, 1)
        return [int(before + step * n) - self._chance.randint(0, DISORDER_MS) for n in range(1, count + 1)]

    def _turn(self, now: int) -> None:
        """Ends the current period of load, and begins the next one."""
        if self._period.is_silent and self._period.seconds >= self._long_silence_s[0]:
            self._time = max(self._time, now + AHEAD_MS + DISORDER_MS)
        self._period = next(self._periods)
        self._over = now + int(self._period.seconds * 1000)


class Load:
    """A context manager that writes the records that are due to topics.

    The key of a record is its number in its partition.

    ``long_silence_s`` is as in :class:`Feed`.
    """

    def __init__(
        self,
        servers: str,
        topics: Sequence[str],
        partitions: int,
        seed: int,
        long_silence_s: tuple[float, float] = LONG_SILENCE_S,
    ) -> None:
        self._feeds: dict[tuple[str, int], Feed] = {}
        self._seed, self._long_silence_s = seed, long_silence_s
        for topic in topics:
            self.add(topic, partitions)
        self._producer = KafkaProducer(bootstrap_servers=servers, linger_ms=_LINGER_MS)
        self._errors: list[BaseException] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.close(timeout=5)

    def add(self, topic: str, partitions: int) -> None:
        """Begins to write to one more topic."""
        for partition in range(partitions):
            chance = random.Random(f"{self._seed} {topic} {partition}")
            self._feeds[topic, partition] = Feed(chance, now_ms(), self._long_silence_s)

    def remove(self, topic: str) -> None:
        """Ends writing to a topic."""
        self._feeds = {place: feed for place, feed in self._feeds.items() if place[0] != topic}

    def produced(self, topic: str) -> dict[int, int]:
        """Returns the number of records that were written to each partition of a topic."""
        return {p: feed.produced for (t, p), feed in self._feeds.items() if t == topic}

    def together(self) -> int:
        """Writes one record of the latest event time to every partition.

        It returns that time (ms) when the broker has all of them.
        """
        time_ms = max(now_ms(), *(feed.newest for feed in self._feeds.values()))
        for place, feed in self._feeds.items():
            self._send(place, feed, feed.one(time_ms))
        self._producer.flush()
        self._raise_errors()
        return time_ms

    def go_on(self) -> None:
        """Writes the records that are due."""
        now = now_ms()
        for place, feed in self._feeds.items():
            self._send(place, feed, feed.due(now))
        self._raise_errors()

    def _send(self, place: tuple[str, int], feed: Feed, times: Sequence[int]) -> None:
        """Sends the newest records of ``feed``, whose event times are ``times``."""
        topic, partition = place
        for number, time_ms in enumerate(times, feed.produced - len(times)):
            self._producer.send(
                topic, b"", key=str(number).encode(), partition=partition, timestamp_ms=time_ms
            ).add_errback(self._errors.append)

    def _raise_errors(self) -> None:
        if self._errors:
            raise self._errors[0]
