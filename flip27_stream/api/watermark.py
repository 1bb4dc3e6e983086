"""Event time: watermarks, how they are generated, and how a record's event time is found.

Flink's ``WatermarkStrategy`` with its generators, over columns of records instead of single ones. A watermark of t says
that no record with an event time <= t is to come. "None yet" is ``None``, never a smallest number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import pyarrow as pa

from flip27_stream.errors import ContractError, shortened


@dataclass(frozen=True, order=True)
class Watermark:
    """No record with an event time <= ``timestamp`` (ms) is to come."""

    timestamp: int


class WatermarkOutput(ABC):
    """Where watermarks go (Flink ``WatermarkOutput``)."""

    @abstractmethod
    def emit_watermark(self, watermark: Watermark) -> None:
        """A watermark; one that is not above the last is ignored."""

    @abstractmethod
    def mark_idle(self) -> None:
        """No records are to be expected for now."""

    @abstractmethod
    def mark_active(self) -> None:
        """Records are to be expected again."""


class TimestampAssigner(ABC):
    """Finds the event time of each record (Flink ``TimestampAssigner``). Picklable."""

    @property
    def column(self) -> str | None:
        """The one column that event time is read from, so that statistics of it can be used; ``None`` if another."""
        return None

    @abstractmethod
    def extract_timestamps(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> pa.Int64Array:
        """Event times (ms), one per row of ``records``; null where a record has none.

        Args:
            records: rows of the source's schema.
            timestamps: the times (ms) the external system gave the records, null where it gave none.
        """

    def event_times(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> pa.Int64Array:
        """The checked result of :meth:`extract_timestamps`, which callers use.

        Raises:
            ContractError: :meth:`extract_timestamps` returns anything but one int64 for each row.
        """
        times: object = self.extract_timestamps(records, timestamps)
        if isinstance(times, pa.Array) and times.type == pa.int64() and len(times) == records.num_rows:
            return times
        kind = f" of {times.type}, {len(times)} long" if isinstance(times, pa.Array) else ""
        raise ContractError(
            f"{type(self).__name__}.extract_timestamps() returned {shortened(repr(times)) if not kind else 'an array'}"
            f"{kind}; it must return a pyarrow array of {records.num_rows} int64 (ms), null where there is none."
        )


@dataclass(frozen=True)
class RecordTimestampAssigner(TimestampAssigner):
    """Event time is the time that the external system gave the record.

    Attributes:
        otherwise: finds it where a source's records carry no such times.
    """

    otherwise: TimestampAssigner | None = None

    @property
    def column(self) -> str | None:
        return self.otherwise.column if self.otherwise is not None else None

    def extract_timestamps(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> pa.Int64Array:
        if timestamps is not None:
            return timestamps
        if self.otherwise is None:
            raise ValueError("this source's records carry no timestamps; name an event-time column")
        return self.otherwise.extract_timestamps(records, None)


class WatermarkGenerator(ABC):
    """Makes watermarks from event times (Flink ``WatermarkGenerator``)."""

    @abstractmethod
    def on_event(self, event_time: int, output: WatermarkOutput) -> None:
        """Records up to ``event_time`` (the greatest of a batch) were seen."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Time to emit, if the watermark is made periodically."""


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """Greatest event time - bound - 1 (Flink ``BoundedOutOfOrdernessWatermarks``; Spark's own lacks the - 1)."""

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        self._bound = max_out_of_orderness_ms
        self._max: int | None = None

    def on_event(self, event_time: int, output: WatermarkOutput) -> None:
        self._max = event_time if self._max is None else max(self._max, event_time)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if self._max is not None:
            output.emit_watermark(Watermark(self._max - self._bound - 1))


@dataclass(frozen=True)
class WatermarkAlignment:
    """Parameters of alignment (FLIP-182); all times in ms."""

    group: str
    max_drift_ms: int
    update_interval_ms: int = 1000

    def __post_init__(self) -> None:
        if not self.group:
            raise ValueError("a watermark alignment group needs a name")
        if self.max_drift_ms < 0:
            raise ValueError(f"max_drift_ms must not be negative: {self.max_drift_ms}")
        if self.update_interval_ms <= 0:
            raise ValueError(f"update_interval_ms must be positive: {self.update_interval_ms}")


@dataclass(frozen=True)
class WatermarkStrategy:
    """How event time is found and how watermarks follow from it (Flink ``WatermarkStrategy``); times in ms."""

    max_out_of_orderness_ms: int = 0
    timestamp_assigner: TimestampAssigner = field(default_factory=RecordTimestampAssigner)
    idle_timeout_ms: int | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """For splits whose event times never fall."""
        return WatermarkStrategy()

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness_ms: int) -> WatermarkStrategy:
        """For splits whose event times fall back by at most so much."""
        if max_out_of_orderness_ms < 0:
            raise ValueError(f"max_out_of_orderness_ms must not be negative: {max_out_of_orderness_ms}")
        return WatermarkStrategy(max_out_of_orderness_ms)

    def with_timestamp_assigner(self, assigner: TimestampAssigner) -> WatermarkStrategy:
        return replace(self, timestamp_assigner=assigner)

    def with_idleness(self, idle_timeout_ms: int) -> WatermarkStrategy:
        """A split is idle when it had nothing for longer than this."""
        if idle_timeout_ms <= 0:
            raise ValueError(f"idle_timeout_ms must be positive: {idle_timeout_ms}")
        return replace(self, idle_timeout_ms=idle_timeout_ms)

    def with_watermark_alignment(
        self, group: str, max_drift_ms: int, update_interval_ms: int = 1000
    ) -> WatermarkStrategy:
        """Align with the other splits, and other sources of ``group`` (FLIP-182, FLIP-217)."""
        return replace(self, alignment=WatermarkAlignment(group, max_drift_ms, update_interval_ms))

    def create_watermark_generator(self) -> WatermarkGenerator:
        return BoundedOutOfOrdernessWatermarks(self.max_out_of_orderness_ms)
