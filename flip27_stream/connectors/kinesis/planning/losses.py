"""What planning reports of records that are lost, or may be."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timezone

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
        seen_at: When planning had last seen the end of the shard (ms); ``None`` if it is not known.
        is_late: Whether records that came after that may have expired.
        is_cut: Whether records may have followed the position that was planned last, whose record has expired.
    """

    split: KinesisShardSplit
    position: int
    error: ConnectorError | None
    found: SplitRange | None = None
    seen_at: int | None = None
    is_late: bool = False
    is_cut: bool = False


class LossReports:
    """Reports lost records.

    Args:
        fail: Whether lost records are an error (option ``failOnDataLoss``). Otherwise they are a warning.
    """

    def __init__(self, *, fail: bool) -> None:
        self._fail = fail

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

    def report_doubt(self, loss: Loss) -> None:
        """Reports records that may have followed a position and have expired.

        Raises:
            DataLossError: ``fail`` is set, and records may be lost.
        """
        where = f"{loss.split.split_id} behind {described(loss.position)}"
        if loss.is_late and loss.seen_at is not None:
            seen_at = datetime.fromtimestamp(loss.seen_at / 1000, timezone.utc)
            what = (
                f"Records of {where} may be lost: planning last looked at the shard at "
                f"{seen_at.isoformat(timespec='seconds')}, and records that came soon after that have expired, or are "
                "about to expire. Nobody can say whether there were some. Choose a retention period that is longer "
                "than the pauses of the query."
            )
            report_data_loss(log, what, fail=self._fail)
        elif loss.is_cut:
            what = (
                f"Records of {where} may be lost: records followed that position when it was planned, and the one "
                "before it has expired."
            )
            report_data_loss(log, what, fail=self._fail)
        elif loss.seen_at is None:
            log.warning(
                "Records of %s may be lost: the checkpoint is of an older release, which does not say when planning "
                "last looked at the shard. They are lost if they are older than the stream's retention period.",
                where,
            )
