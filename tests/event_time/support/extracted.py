"""The event times that the assigner of a specification gives to values."""

from __future__ import annotations

import pickle

import pyarrow as pa

from flip27_stream.event_time.assigners import timestamp_assigner

NOW = 1_700_000_000_000


def times(spec: str, values: pa.Array, column: str = "value") -> list[int | None]:
    """Returns the event times (ms) of ``values``, by an assigner that was pickled."""
    records = pa.record_batch({column: values})
    assigner = pickle.loads(pickle.dumps(timestamp_assigner(spec, records.schema)))
    extracted = assigner.extract_timestamps(records, None)
    assert extracted.type == pa.int64()
    found: list[int | None] = extracted.to_pylist()
    return found
