"""Tests of the sentence about a record without an event time."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flip27_stream.api import TimestampAssigner
from flip27_stream.event_time.assigners import ColumnTimestampAssigner, timestamp_assigner
from flip27_stream.event_time.samples import sample_of


def pointer_into(column: str) -> TimestampAssigner:
    schema = pa.schema([(column, pa.binary())])
    return timestamp_assigner("/t", schema, "scan.watermark.event-time", None, column)


@pytest.mark.parametrize("column", ["value", "data"])
@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary()])
def test_the_keys_of_a_document_are_named_and_no_values(column: str, kind: pa.DataType) -> None:
    records = pa.record_batch({column: pa.array(['{"t": 1}', '{"time": "secret", "user": 7}'], kind)})
    said = sample_of(pointer_into(column), records, 1)
    assert said == "The top-level keys of one of them: 'time', 'user'."


def test_a_sample_is_empty_without_the_column_of_documents() -> None:
    """The sentence is empty if the records lack the column of documents: the query reads other columns, and the
    reader has computed the event times.
    """
    assert sample_of(pointer_into("value"), pa.record_batch({"key": [b"k"]}), 0) == ""


def test_a_sample_names_the_column() -> None:
    records = pa.record_batch({"at": pa.array([None], pa.timestamp("us"))})
    assert "'at' is null or before 1970" in sample_of(ColumnTimestampAssigner("at"), records, 0)
