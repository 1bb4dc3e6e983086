"""What planning reports of records that are lost, or may be."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from flip27_stream.api import SplitRange
from flip27_stream.connector_base.data_loss import report_data_loss
from flip27_stream.connectors.kinesis.client.client import StreamIdentity
from flip27_stream.connectors.kinesis.planning.enumerator_state import StreamState
from flip27_stream.connectors.kinesis.positions import described
from flip27_stream.connectors.kinesis.split import KinesisShardSplit
from flip27_stream.errors import ConnectorError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loss:
    """A position where records are lost, or may be lost or of another stream.

    Attributes:
        split: The shard.
        position: The position.
        error: What the service said; ``None`` if it went on at the first record that is there.
        found: The range from there on, if there was no error.
    """

    split: KinesisShardSplit
    position: int
    error: ConnectorError | None
    found: SplitRange | None = None


class LossReports:
    """Reports lost records.

    Args:
        fail: Whether lost records are an error (option ``failOnDataLoss``). Otherwise they are a warning.
    """

    def __init__(self, *, fail: bool) -> None:
        self._fail = fail
        self._doubted: dict[str, int] = {}

    def report_stream(self, stream: str, known: StreamState, identity: StreamIdentity) -> None:
        """Reports a stream that was deleted and made again.

        Raises:
            DataLossError: ``fail`` is set.
        """
        what = (
            f"Stream '{stream}' was deleted and made again: the checkpoint is of {known.arn}, made at {known.created} "
            f"ms, and there is {identity.arn} now, made at {identity.created} ms. Records that were not read yet are "
            "lost."
        )
        report_data_loss(
            log,
            what,
            fail=self._fail,
            remedy="To read the new stream from its beginning, set option 'failOnDataLoss' to false.",
            goes_on="The new stream is read",
        )

    def report_parents(self, parents: Collection[str]) -> None:
        """Reports shards that came and went while nobody listed them.

        Raises:
            DataLossError: ``fail`` is set.
        """
        what = (
            f"Shards {', '.join(sorted(parents))} were made, closed and have expired since the query last listed "
            "shards. If they had records, these are lost."
        )
        report_data_loss(log, what, fail=self._fail, goes_on="Their children are read")

    def report_records(self, loss: Loss) -> None:
        """Reports records that the service says do not exist.

        Raises:
            DataLossError: ``fail`` is set.
        """
        what = (
            f"Records of {loss.split.split_id} are lost: {described(loss.position)} does not exist any more "
            f"({loss.error}). They are older than the stream's retention period, or the stream was deleted and made "
            "again."
        )
        report_data_loss(log, what, fail=self._fail)

    def warn_of_doubt(self, loss: Loss) -> None:
        """Warns once of records that may have followed one which was read and has expired."""
        if self._doubted.get(loss.split.split_id) == loss.position:
            return
        self._doubted[loss.split.split_id] = loss.position
        log.warning(
            "The last record of %s that was read, %s, does not exist any more. If records followed it and have "
            "expired, too, they are lost. Choose a retention period that is longer than the pauses of the query.",
            loss.split.split_id,
            described(loss.position),
        )

    def warn_of_first_record(self, split: KinesisShardSplit) -> None:
        """Warns of records that may have been before the first one of a shard, which was empty."""
        log.warning(
            "Shard %s was empty when it was last planned, and its first record is about to expire. If records before "
            "it have expired, they are lost. Choose a retention period that is longer than the pauses of the query.",
            split.split_id,
        )
