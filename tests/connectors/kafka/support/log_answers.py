"""A log of one partition whose brokers answer as a test sets it."""

from __future__ import annotations

from collections.abc import Mapping

from flip27_stream.connectors.kafka.client.protocol import OffsetAndTimestamp, TopicMetadata
from flip27_stream.connectors.kafka.split import EARLIEST, TopicPartition

THERE = {"t": TopicMetadata("id", False, {0: 1})}


class LogAnswers:
    """Partition ``t-0`` with records 0 to 9. Records from 5 on are in an open transaction.

    ``asked`` are the requests made, as "topics", "offsets" and "epochs". The leader has the epoch ``epoch``, and the
    records of former leaders up to ``kept``; if that is ``None``, it does not answer.
    """

    def __init__(self) -> None:
        self.metadata: Mapping[str, TopicMetadata] = THERE
        self.start, self.stable, self.high_watermark = 0, 5, 10
        self.silent_about_all = False
        self.cluster_id = ""
        self.asked: list[str] = []
        self.late = self.no_leader = False
        self.epoch = -1
        self.kept: int | None = 10

    def why_silent(self, tp: TopicPartition) -> str:
        return "it has no leader"

    def topics(self, names: object) -> Mapping[str, TopicMetadata]:
        self.asked.append("topics")
        return self.metadata

    def list_offsets(
        self, *rounds: Mapping[TopicPartition, int], read_committed: bool, late_answers: bool = False
    ) -> list[dict[TopicPartition, OffsetAndTimestamp]]:
        self.asked.append("offsets")
        if self.no_leader:
            return [{} for _ in rounds]
        late = self.late and late_answers
        if self.silent_about_all and not read_committed:
            return [{} for _ in rounds]
        end = self.stable if read_committed else self.high_watermark
        return [
            {
                tp: OffsetAndTimestamp(self.start if at == EARLIEST else end, -1, late, self.epoch)
                for tp, at in wanted.items()
            }
            for wanted in rounds
        ]

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.asked.append("epochs")
        return {} if self.kept is None else dict.fromkeys(epochs, self.kept)
