"""Tests of the sentence about a record without an event time."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flip27_stream.api import RecordTimestampAssigner, TimestampAssigner
from flip27_stream.event_time.assigners import ColumnTimestampAssigner, timestamp_assigner
from flip27_stream.event_time.samples import sample_of


def pointer_into(column: str, pointer: str = "/t") -> TimestampAssigner:
    schema = pa.schema([(column, pa.binary())])
    return timestamp_assigner(pointer, schema, "scan.watermark.event-time", None, column)


@pytest.mark.parametrize("column", ["value", "data"])
@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary()])
def test_the_keys_of_a_document_are_named_and_no_values(column: str, kind: pa.DataType) -> None:
    records = pa.record_batch({column: pa.array(['{"t": 1}', '{"time": "secret", "user": 7}'], kind)})
    said = sample_of(pointer_into(column), records, 1)
    assert said == "The top-level keys of one of these records: 'time', 'user'."


@pytest.mark.parametrize(
    ("pointer", "document", "said"),
    [
        ("/t", '{"t": 1790000000.5}', "At '/t' it has a number with a fraction or an exponent."),
        ("/t", '{"t": 1e9}', "At '/t' it has a number with a fraction or an exponent."),
        ("/t", '{"t": -1}', "At '/t' it has a number below 0."),
        ("/t", '{"t": 9223372036854775808}', "At '/t' it has a number of more than 64 bits."),
        ("/t", '{"t": "1790000000000"}', "At '/t' it has digits in quotes."),
        ("/t", '{"t": "11/23/2026"}', "At '/t' it has a text that is not a date and time in a known form."),
        ("/t", '{"t": null}', "At '/t' it has null."),
        ("/t", '{"t": true}', "At '/t' it has a boolean."),
        ("/t", '{"t": [5]}', "At '/t' it has an array."),
        ("/t", '{"t": {"$date": 5}}', "At '/t' it has an object."),
        ("/t/at", '{"t": {"time": 5}}', "It has an object at '/t', with nothing at '/t/at'."),
        ("/t/1", '{"t": [5]}', "It has an array at '/t', with nothing at '/t/1'."),
        ("/t/0/x", '{"t": [5]}', "At '/t/0' it has a number, not an object."),
        ("/t/at", '{"t": 5}', "At '/t' it has a number, not an object."),
        (
            "/t/at",
            '{"t": "{\\"at\\": 5}"}',
            "At '/t' it has a text, not an object. Use module:function for JSON in a text.",
        ),
    ],
)
def test_a_sample_describes_the_value_at_the_pointer_without_showing_it(
    pointer: str, document: str, said: str
) -> None:
    records = pa.record_batch({"value": pa.array([document.encode()], pa.binary())})
    assert (
        sample_of(pointer_into("value", pointer), records, 0)
        == f"The top-level keys of one of these records: 't'. {said}"
    )


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (b"{'u': 1}", "The top-level keys of one of these records: 'u'."),
        (b'{"u": "\xff"}', "The top-level keys of one of these records: 'u'."),
        (b'{"u": 1, "u": 2}', "The top-level keys of one of these records: 'u'."),
        (b'{"t": +INF}', "The top-level keys of one of these records: 't'. At '/t' it has a number with a"),
        (
            b'{"t": 5, "t": -5}',
            "The top-level keys of one of these records: 't'. At '/t' it has a number below 0.",
        ),
        (b'\xef\xbb\xbf{"t": 1}', "The value of one of these records is not JSON."),
        (b"[" * 100_000, "The value of one of these records is JSON that is nested too deeply."),
    ],
)
def test_a_sample_is_parsed_as_event_times_are(document: bytes, said: str) -> None:
    """A message that came from another parser would contradict the event times."""
    pointer = pointer_into("value", "/t")
    records = pa.record_batch({"value": pa.array([document], pa.binary())})
    assert pointer.extract_timestamps(records, None).null_count == 1
    assert sample_of(pointer, records, 0).startswith(said)


def test_a_sample_leaves_out_the_frame_of_a_schema_registry() -> None:
    records = pa.record_batch({"value": [b"\0\0\0\0\x07" + b'{"time": 5}']})
    assert (
        sample_of(pointer_into("value"), records, 0) == "The top-level keys of one of these records: 'time'."
    )


def test_a_sample_is_empty_without_the_column_of_documents() -> None:
    """The sentence is empty if the records lack the column of documents: the query reads other columns, and the
    reader has computed the event times.
    """
    assert sample_of(pointer_into("value"), pa.record_batch({"key": [b"k"]}), 0) == ""


def test_a_sample_names_the_column() -> None:
    records = pa.record_batch({"at": pa.array([None], pa.timestamp("us"))})
    assert "'at' is null or before 1970" in sample_of(ColumnTimestampAssigner("at"), records, 0)
    assert "a number of microseconds is too great" in sample_of(ColumnTimestampAssigner("at"), records, 0)


def test_a_column_of_numbers() -> None:
    records = pa.record_batch({"at": pa.array([None], pa.int64())})
    said = sample_of(ColumnTimestampAssigner("at"), records, 0)
    assert said == "Its event-time column 'at' is null or before 1970. All its columns are null."


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_columns_that_have_a_value_are_named(unit: str) -> None:
    """The columns of the record are named, and no values, whatever the unit of the event-time column is."""
    records = pa.record_batch(
        {"at": pa.array([None], pa.int64()), "took_at": [1790000000], "note": pa.array([None], pa.string())}
    )
    said = sample_of(ColumnTimestampAssigner("at", unit), records, 0)
    assert said == (
        "Its event-time column 'at' is null or before 1970. One of these records has values in the columns 'took_at'."
    )
    assert sample_of(RecordTimestampAssigner(ColumnTimestampAssigner("at", unit)), records, 0) == said
