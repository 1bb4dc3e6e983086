"""Reports of planning about records that are lost, or may be lost."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from flip27_stream.api import SplitRange
from flip27_stream.connector_base.data_loss import report_data_loss
from flip27_stream.connectors.kinesis.client.client import KinesisClient, StreamIdentity
from flip27_stream.connectors.kinesis.planning.enumerator_state import StreamState
from flip27_stream.connectors.kinesis.positions import described
from flip27_stream.connectors.kinesis.split import KinesisShardSplit
from flip27_stream.errors import ConnectorError
from flip27_stream.time_text import time_text

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loss:
    """A position where records are lost, where they may be lost, or where they may belong to another stream.

    Attributes:
        split: The shard.
        position: The position.
        error: The error of the service; ``None`` if it went on at the first existing record.
        found: The range from that record on; ``None`` after an error.
        seen_at: When planning had last seen the end of the shard (ms), or a time before all records of a shard that is
            new; ``None`` if it is not known.
        is_late: Whether records that came after ``seen_at`` may have expired.
        is_cut: Whether the record at the position that was planned last has expired, so that records after it may be
            missing, too.
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
        """Reports a stream that was deleted and created again.

        Raises:
            DataLossError: ``fail`` is set.
        """
        what = (
            f"Stream '{stream}' was deleted and created again: the checkpoint is of {known.arn}, created at "
            f"{known.created} ms, and the stream now is {identity.arn}, created at {identity.created} ms. Records that "
            "were not read yet are lost."
        )
        report_data_loss(
            log,
            what,
            fail=self._fail,
            remedy="To read the new stream from its beginning, set option 'failOnDataLoss' to false.",
            goes_on="The new stream is read",
        )

    def report_parents(self, parents: Collection[str]) -> None:
        """Reports shards that were created, closed and expired between two listings.

        Raises:
            DataLossError: ``fail`` is set.
        """
        what = (
            f"Shards {', '.join(sorted(parents))} were created, closed and have expired since the query last listed "
            "shards. If they had records, these are lost."
        )
        report_data_loss(log, what, fail=self._fail, goes_on="Their children are read")

    @staticmethod
    def warn_of_gap(client: KinesisClient, streams: Mapping[str, StreamIdentity], since: int) -> None:
        """Warns of streams whose first records, as a new query wants them, have expired.

        Args:
            client: The client of the service.
            streams: The identities of the streams.
            since: The time (ms) from which the query reads them.
        """
        for stream, identity in streams.items():
            if client.is_about_to_expire(stream, max(since, identity.created)):
                log.warning(
                    "Stream '%s' is to be read from %s UTC on, but records that arrived soon after that time have "
                    "expired, or are about to expire: it is read from the first record that still exists. If the "
                    "stream follows a history that ends at that time, records in between may be in neither.",
                    stream,
                    time_text(since),
                )

    def report_records(self, loss: Loss) -> None:
        """Reports records that do not exist any more, by an answer of the service.

        Raises:
            DataLossError: ``fail`` is set.
        """
        what = (
            f"Records of {loss.split.split_id} are lost: {described(loss.position)} does not exist any more "
            f"({loss.error}). They are older than the stream's retention period, or the stream was deleted and created "
            "again."
        )
        report_data_loss(log, what, fail=self._fail)

    def report_doubt(self, loss: Loss) -> None:
        """Reports records that may have followed a position and have expired.

        Raises:
            DataLossError: ``fail`` is set, and records may be lost.
        """
        where = f"{loss.split.split_id} from {described(loss.position)} on"
        if loss.is_late and loss.seen_at is not None:
            what = (
                f"Records of {where} may be lost: planning has not read the shard since "
                f"{time_text(loss.seen_at)} UTC, and records that arrived soon after that time have expired, "
                "or are about to expire. It is unknown whether there were any. Choose a retention period that is "
                "longer than the pauses of the query."
            )
            report_data_loss(log, what, fail=self._fail)
        elif loss.is_cut:
            what = (
                f"Records of {where} may be lost: records followed this position when it was planned, and the "
                "record before it has expired."
            )
            report_data_loss(log, what, fail=self._fail)
        elif loss.seen_at is None:
            log.warning(
                "Records of %s may be lost: the checkpoint is of an older release, which does not have the time at "
                "which planning last read the shard. Records are lost if they are older than the stream's retention "
                "period.",
                where,
            )
