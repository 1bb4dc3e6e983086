"""The partitions whose leaders do not answer, and the time limit for that."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import UnreachableError

_LEAST_LOOKS = 3


@dataclass
class _Silence:
    """Since when a partition is not answered, when it was asked about last (monotonic seconds), and how often."""

    since: float
    asked: float
    looks: int = 0


class Unanswered:
    """Fails where a partition stays unanswered for longer than Spark's source would try.

    Args:
        longest_ms: how long it may be unanswered, if it was asked about three times at least.
        why: says why there is no answer about a partition.
    """

    def __init__(self, longest_ms: int, why: Callable[[TopicPartition], str]) -> None:
        self._longest_s = longest_ms / 1000
        self._why = why
        self._silences: dict[TopicPartition, _Silence] = {}

    def note(self, asked: Collection[TopicPartition], answered: Collection[TopicPartition]) -> None:
        """The outcome of one look. A partition that it does not ask about is as silent as it was, for that time.

        Raises:
            UnreachableError: a partition was not answered for too long.
        """
        now = time.monotonic()
        oldest = now - self._longest_s
        self._silences = {
            tp: silence
            for tp, silence in self._silences.items()
            if tp not in answered and (tp in asked or silence.asked >= oldest)
        }
        for tp in asked:
            if tp in answered:
                continue
            silence = self._silences.setdefault(tp, _Silence(now, now))
            silence.asked, silence.looks = now, silence.looks + 1
            if silence.looks >= _LEAST_LOOKS and now - silence.since >= self._longest_s:
                raise UnreachableError(
                    f"There was no answer about {tp} for {now - silence.since:.0f} s: {self._why(tp)}. Check that the "
                    "broker is well and that this machine can reach it, or raise options 'fetchOffset.numRetries' "
                    "and 'kafka.default.api.timeout.ms', whose product is the longest time."
                )
