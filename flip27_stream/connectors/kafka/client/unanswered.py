"""The partitions whose leaders do not answer, and the time after which this is an error."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import UnreachableError

_LEAST_LOOKS = 3


@dataclass
class _UnansweredPartition:
    """The state of a partition whose leader does not answer.

    Attributes:
        asked: The time at which the last request was made, in monotonic seconds.
        lasted_s: The time between the first and the last unanswered request that counts, in seconds.
        looks: The number of unanswered requests.
    """

    asked: float
    lasted_s: float = 0.0
    looks: int = 0


class UnansweredPartitions:
    """The check that a partition is not without an answer for longer than Spark's source would try.

    The time between two requests counts, but no more than half of the longest time: a micro-batch may run long, and the
    process may have been suspended.

    Args:
        longest_ms: The longest time without an answer, in ms. At least three requests must have been made, too.
        why: Returns the reason why no answer about a partition came, for the message.
    """

    def __init__(self, longest_ms: int, why: Callable[[TopicPartition], str]) -> None:
        self._longest_s = longest_ms / 1000
        self._why = why
        self._unanswered: dict[TopicPartition, _UnansweredPartition] = {}

    def note(self, asked: Collection[TopicPartition], answered: Collection[TopicPartition]) -> None:
        """Records which partitions were asked for in one round of requests, and which were answered.

        A partition that was not asked for keeps its state, unless its last request is longer ago than ``longest_ms``.

        Args:
            asked: The partitions that were asked for.
            answered: Those of them that were answered.

        Raises:
            UnreachableError: A partition got no answer for too long.
        """
        if not self._unanswered and len(answered) == len(asked):
            return
        now = time.monotonic()
        oldest = now - self._longest_s
        self._unanswered = {
            tp: silence
            for tp, silence in self._unanswered.items()
            if tp not in answered and (tp in asked or silence.asked >= oldest)
        }
        for tp in [tp for tp in asked if tp not in answered]:
            silence = self._unanswered.setdefault(tp, _UnansweredPartition(now))
            silence.lasted_s += min(now - silence.asked, self._longest_s / (_LEAST_LOOKS - 1))
            silence.asked, silence.looks = now, silence.looks + 1
            if silence.looks >= _LEAST_LOOKS and silence.lasted_s >= self._longest_s:
                raise UnreachableError(
                    f"There was no answer about {tp} for {silence.lasted_s:.0f} s: {self._why(tp)}. Check that the "
                    "broker runs without errors and that this machine can reach it, or raise options "
                    "'fetchOffset.numRetries' and 'kafka.default.api.timeout.ms', whose product is the longest time."
                )
