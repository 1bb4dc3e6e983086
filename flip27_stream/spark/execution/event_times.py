"""Observation of the event times of one split in a task."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flip27_stream.api import RecordTimestampAssigner, TimestampAssigner
from flip27_stream.arrow_columns import flags, numbers_of
from flip27_stream.errors import ImplausibleEventTimeError
from flip27_stream.event_time.samples import sample_of
from flip27_stream.event_time.units import LATEST_OF_SECONDS
from flip27_stream.time_text import time_text
from watermark_alignment.event_time_checks import steps_off


class ImplausibleEventTimes(Enum):
    """The treatment of records whose event time is implausible (``scan.watermark.implausible-event-time``)."""

    FAIL = "fail"
    SKIP = "skip"
    PASS = "pass"


class EventTimeObserver:
    """An observer of the rows of one split: least and greatest event time, disorder, implausible times.

    Args:
        split_id: The id of the split.
        assigner: Finds the event time of a row.
        plausible_until: Event times after this time (ms) are implausible; ``None`` for no bound.
        policy: The treatment of rows with an implausible event time.
    """

    def __init__(
        self,
        split_id: str,
        assigner: TimestampAssigner,
        plausible_until: int | None,
        policy: ImplausibleEventTimes,
    ) -> None:
        self._split_id = split_id
        self._assigner = assigner
        self._plausible_until = plausible_until
        self._policy = policy
        self._max: int | None = None
        self._min: int | None = None
        self._disorder = 0
        self._implausible = 0
        self._implausible_example: int | None = None
        self._untimed = 0
        self._sample = ""

    def observe(
        self, records: pa.RecordBatch, timestamps: pa.Int64Array | None, positions: pa.Int64Array | None
    ) -> pa.RecordBatch:
        """Observes record batches, and returns the rows to emit.

        Args:
            records: The rows.
            timestamps: The times (ms) that the external system gave the records; ``None`` without such times.
            positions: The positions of the rows, for an error message; ``None`` without positions.

        Raises:
            ImplausibleEventTimeError: A row has an implausible event time, and the policy is to fail.
        """
        column = self._assigner.event_times(records, timestamps)
        times = numbers_of(column, null=-1)
        if some_untimed := int(times.min()) < 0:
            self._take_in_untimed(records, times < 0)
        if self._plausible_until is not None and int(times.max()) > self._plausible_until:
            implausible = times > self._plausible_until
            is_timestamp = self._is_timestamp(records, timestamps)
            records = self._apply_policy(records, times, implausible, positions, is_timestamp)
            times = times[~implausible]
        if some_untimed:
            times = times[times >= 0]
        if len(times):
            self._add(times)
        return records

    def statistics(self) -> dict[str, Any]:
        """Returns the fields of a :class:`SplitReport` about event times."""
        return {
            "max_event_time": self._max,
            "disorder": self._disorder,
            "implausible": self._implausible,
            "min_event_time": self._min,
            "untimed": self._untimed,
            "sample": self._sample,
            "implausible_example": self._implausible_example,
        }

    def _take_in_untimed(self, records: pa.RecordBatch, untimed: npt.NDArray[np.bool_]) -> None:
        self._untimed += int(untimed.sum())
        self._sample = self._sample or sample_of(self._assigner, records, int(untimed.argmax()))

    def _add(self, times: npt.NDArray[np.int64]) -> None:
        running = np.maximum.accumulate(times)
        if self._max is not None:
            np.maximum(running, self._max, out=running)
        self._disorder = max(self._disorder, int((running - times).max()))
        self._max = int(running[-1])
        least = int(times.min())
        self._min = least if self._min is None else min(self._min, least)

    def _apply_policy(
        self,
        records: pa.RecordBatch,
        times: npt.NDArray[np.int64],
        implausible: npt.NDArray[np.bool_],
        positions: pa.Int64Array | None,
        is_timestamp: bool,
    ) -> pa.RecordBatch:
        self._implausible += int(implausible.sum())
        self._implausible_example = int(times[implausible.argmax()])
        if self._policy is ImplausibleEventTimes.PASS:
            return records
        if self._policy is ImplausibleEventTimes.SKIP:
            return records.filter(flags(~implausible))
        row = int(implausible.argmax())
        where = f"position {positions[row].as_py()}" if positions is not None else f"row {row} of a batch"
        assert self._plausible_until is not None
        raise ImplausibleEventTimeError(
            f"Split {self._split_id} has the implausible event time {_text(int(times[row]))} at {where}: it is "
            f"later than {_text(self._plausible_until)}, which is scan.watermark.max-future after the clock when the "
            "batch was planned. This batch is fixed in the checkpoint: restart with option "
            "scan.watermark.implausible-event-time set to skip or pass. If these times are right, start queries with a "
            "greater scan.watermark.max-future."
            + _unit_hint(int(times[row]), self._plausible_until, is_timestamp)
        )

    def _is_timestamp(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> bool:
        """Returns whether event times are timestamps, of a column or of the system, and not numbers with a unit."""
        if isinstance(self._assigner, RecordTimestampAssigner) and timestamps is not None:
            return True
        column = self._assigner.column
        return column in records.schema.names and pa.types.is_timestamp(records.schema.field(column).type)


def _unit_hint(event_time: int, until: int, is_timestamp: bool) -> str:
    if event_time == LATEST_OF_SECONDS and not is_timestamp:
        return (
            " It is 1,000,000,000 times too great if it is a number of nanoseconds: set scan.watermark.event-time.unit "
            "to 'ns', and start with a new checkpoint."
        )
    steps = steps_off(event_time, until)
    if steps is None:
        return ""
    factor = 1000**steps
    hint = f" Divided by {factor:,} it is {_text(event_time // factor)}: "
    if is_timestamp:
        return (
            hint
            + "it may have been written in a shorter unit than the configured one. Event times here are timestamps, "
            "which have their own unit: correct the program that writes them, or use module:function. "
            "A JSON integer in a timestamp column counts seconds, as in Spark: declare the column as bigint where it "
            "counts another unit."
        )
    return (
        hint
        + "if these are numbers in a shorter unit than the configured one, set scan.watermark.event-time.unit, "
        "and start with a new checkpoint."
    )


def _text(event_time: int) -> str:
    return time_text(event_time, "milliseconds")
