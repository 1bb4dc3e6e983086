"""Event time: how the event time of records is found, and the parameters of watermarks (Flink ``WatermarkStrategy``).

Everything works on columns of records instead of single records. A watermark of t says that no record with an event
time <= t is still to come. An unknown time is ``None``, never a smallest number. There are no watermark generators:
planning computes the watermark of a split as front - ``max_out_of_orderness_ms`` - 1. The front of a split is the
greater of two event times: the greatest that was read, and that of the next record to read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import pyarrow as pa

from flip27_stream.errors import ContractError, shortened


class TimestampAssigner(ABC):
    """Finds the event time of each record (Flink ``TimestampAssigner``). Objects of subclasses must be picklable."""

    @property
    def column(self) -> str | None:
        """The name of the column that has the event times; ``None`` if they are not the values of one column.

        A source may find event times in the statistics of this column, without reading its values.
        """
        return None

    @abstractmethod
    def extract_timestamps(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> pa.Int64Array:
        """Returns the event times (ms), one for each row of ``records``; null for a record without one.

        Args:
            records: Rows of the source's schema.
            timestamps: The times (ms) that the external system gave the records, null for a record without one;
                ``None`` if the records of the source have no such times.
        """

    def event_times(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> pa.Int64Array:
        """Returns the checked result of :meth:`extract_timestamps`. Code that uses an assigner calls this method.

        Raises:
            ContractError: :meth:`extract_timestamps` did not return one int64 for each row.
        """
        times: object = self.extract_timestamps(records, timestamps)
        if isinstance(times, pa.Array) and times.type == pa.int64() and len(times) == records.num_rows:
            return times
        kind = f" of {times.type}, {len(times)} long" if isinstance(times, pa.Array) else ""
        raise ContractError(
            f"{type(self).__name__}.extract_timestamps() returned {shortened(repr(times)) if not kind else 'an array'}"
            f"{kind}; it must return a pyarrow array of {records.num_rows} int64 (ms), null for a row without one."
        )


@dataclass(frozen=True)
class RecordTimestampAssigner(TimestampAssigner):
    """Uses the time that the external system gave the record as its event time.

    Attributes:
        otherwise: Finds the event time if the records of the source have no such times.
    """

    otherwise: TimestampAssigner | None = None

    @property
    def column(self) -> str | None:
        return self.otherwise.column if self.otherwise is not None else None

    def extract_timestamps(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> pa.Int64Array:
        if timestamps is not None:
            return timestamps
        if self.otherwise is None:
            raise ValueError(
                "the records of this source carry no timestamps; name a column with option scan.watermark.event-time"
            )
        return self.otherwise.extract_timestamps(records, None)


@dataclass(frozen=True)
class WatermarkAlignment:
    """The parameters of alignment (FLIP-182).

    Attributes:
        group: The name of the alignment group.
        max_drift_ms: The greatest allowed difference (ms) between the greatest event time read and the least front
            of a split.
        update_interval_ms: The greatest allowed age (ms) of the group's least watermark when a batch is planned.

    Raises:
        ValueError: The group has no name, the drift is negative, or the interval is not positive.
    """

    group: str
    max_drift_ms: int
    update_interval_ms: int = 1000

    def __post_init__(self) -> None:
        if not self.group:
            raise ValueError("the name of a watermark alignment group must not be empty")
        if self.max_drift_ms < 0:
            raise ValueError(f"max_drift_ms must not be negative: {self.max_drift_ms}")
        if self.update_interval_ms <= 0:
            raise ValueError(f"update_interval_ms must be positive: {self.update_interval_ms}")


@dataclass(frozen=True)
class WatermarkStrategy:
    """How event time is found, and the parameters of watermarks (Flink ``WatermarkStrategy``).

    Attributes:
        max_out_of_orderness_ms: How far (ms) event times fall back within a split at most.
        timestamp_assigner: Finds the event time of each record.
        idle_timeout_ms: The time (ms) without records after which a split is idle; ``None`` if it never becomes idle.
        alignment: The parameters of alignment; ``None`` if it is off.
    """

    max_out_of_orderness_ms: int = 0
    timestamp_assigner: TimestampAssigner = field(default_factory=RecordTimestampAssigner)
    idle_timeout_ms: int | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Returns the strategy for splits whose event times never decrease."""
        return WatermarkStrategy()

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness_ms: int) -> WatermarkStrategy:
        """Returns the strategy for splits whose event times fall back by at most ``max_out_of_orderness_ms``.

        Raises:
            ValueError: ``max_out_of_orderness_ms`` is negative.
        """
        if max_out_of_orderness_ms < 0:
            raise ValueError(f"max_out_of_orderness_ms must not be negative: {max_out_of_orderness_ms}")
        return WatermarkStrategy(max_out_of_orderness_ms)

    def with_timestamp_assigner(self, assigner: TimestampAssigner) -> WatermarkStrategy:
        """Returns this strategy with another assigner."""
        return replace(self, timestamp_assigner=assigner)

    def with_idleness(self, idle_timeout_ms: int) -> WatermarkStrategy:
        """Returns this strategy with an idle timeout (ms).

        Raises:
            ValueError: The number is not positive.
        """
        if idle_timeout_ms <= 0:
            raise ValueError(f"idle_timeout_ms must be positive: {idle_timeout_ms}")
        return replace(self, idle_timeout_ms=idle_timeout_ms)

    def with_watermark_alignment(
        self, group: str, max_drift_ms: int, update_interval_ms: int = 1000
    ) -> WatermarkStrategy:
        """Returns this strategy with alignment of the splits of all sources in ``group`` (FLIP-182, FLIP-217)."""
        return replace(self, alignment=WatermarkAlignment(group, max_drift_ms, update_interval_ms))
