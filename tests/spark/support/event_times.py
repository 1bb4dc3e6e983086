"""An event-time function that the option ``scan.watermark.event-time`` can name."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def from_value(records: pa.RecordBatch) -> pa.Int64Array:
    """Returns the values as event times (ms). They are decimal text."""
    return pc.cast(pc.cast(records.column("value"), pa.string()), pa.int64())
