"""Tests of the sources of event time: columns and functions (``scan.watermark.event-time``)."""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flip27_stream.api import RecordTimestampAssigner, TimestampAssigner
from flip27_stream.errors import EventTimeError, OptionError
from flip27_stream.event_time.assigners import timestamp_assigner
from tests.event_time.support.extracted import NOW, times

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)


def test_the_record_timestamp_column_is_the_record_timestamp() -> None:
    """The column of record timestamps gets the assigner for record timestamps, by which a connector can tell that its
    own index of times may be used.
    """
    assert type(timestamp_assigner("timestamp", SCHEMA)) is RecordTimestampAssigner
    assert (
        type(timestamp_assigner("timestamp", SCHEMA, record_timestamp_column=None))
        is not RecordTimestampAssigner
    )
    assert type(timestamp_assigner("offset", SCHEMA)) is not RecordTimestampAssigner


@pytest.mark.parametrize(
    ("kind", "ticks", "ms"),
    [
        (pa.timestamp("s"), [0, 5, -1, 2**62, None], [0, 5000, None, (2**63 - 1) // 1000 * 1000, None]),
        (pa.timestamp("ms", "UTC"), [0, 5, -1, None], [0, 5, None, None]),
        (pa.timestamp("us", "Europe/Berlin"), [999, 1999, -1, None], [0, 1, None, None]),
        (pa.timestamp("ns"), [999_999, 1_999_999, -1, None], [0, 1, None, None]),
        (pa.int64(), [0, 2**63 - 1, -1, None], [0, 2**63 - 2, None, None]),
    ],
)
def test_a_column_is_rounded_down_and_negative_is_none(
    kind: pa.DataType, ticks: list[int | None], ms: list[int | None]
) -> None:
    column = pa.array(ticks, pa.int64()).cast(kind)
    assert times("at", column, "at") == ms
    assert times("at", column.slice(1), "at") == ms[1:]


@pytest.fixture
def functions() -> Iterator[types.ModuleType]:
    module = types.ModuleType("event_time_functions")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


RECORDS = pa.record_batch({"value": pa.array([b"1", b"2", b"3"])})
FUNCTION = "event_time_functions:times"


def _call(returned: Any, functions: types.ModuleType) -> list[int | None]:
    functions.times = lambda records: returned  # type: ignore[attr-defined]
    assigner: TimestampAssigner = pickle.loads(pickle.dumps(timestamp_assigner(FUNCTION, RECORDS.schema)))
    found: list[int | None] = assigner.extract_timestamps(RECORDS, None).to_pylist()
    return found


@pytest.mark.parametrize(
    "returned",
    [
        pa.array([5, None, -1]),
        pa.array([5, None, -1], pa.int32()),
        pa.chunked_array([[5], [None, -1]]),
        pa.array([5999, None, -1], pa.timestamp("us")),
    ],
)
def test_a_function_returns_arrow_integers_or_timestamps(returned: Any, functions: types.ModuleType) -> None:
    assert _call(returned, functions) == [5, None, None]


def test_a_function_may_return_numpy(functions: types.ModuleType) -> None:
    assert _call(np.array([5, 6, -1]), functions) == [5, 6, None]
    assert _call(np.array([5, 6, "NaT"], "datetime64[ms]"), functions) == [5, 6, None]
    assert _call(pa.nulls(3), functions) == [None, None, None]


@pytest.mark.parametrize(
    ("returned", "named"),
    [
        (None, "NoneType, without a length"),
        ([1, 2, 3], "list, 3 long"),
        (pa.array([1, 2]), "Int64Array of int64, 2 long"),
        (np.array([1.0, 2.0, 3.0]), "ndarray of float64, 3 long"),
        (np.array([[1], [2], [3]]), "ndarray of int64, 3 long"),
        (pa.array(["1", "2", "3"]), "StringArray of string, 3 long"),
        (pa.array([True, False, None]), "BooleanArray of bool, 3 long"),
        (pa.array([1, 2, 2**64 - 1], pa.uint64()), "UInt64Array of uint64, 3 long"),
    ],
)
def test_a_wrong_result_of_a_function_is_named(
    returned: Any, named: str, functions: types.ModuleType
) -> None:
    with pytest.raises(
        EventTimeError, match=f"'{FUNCTION}' returned {named}; expected .* of 3 64-bit integers"
    ):
        _call(returned, functions)


def test_an_error_in_a_function_names_it(functions: types.ModuleType) -> None:
    def times(records: pa.RecordBatch) -> pa.Array:
        raise KeyError("clock")

    functions.times = times  # type: ignore[attr-defined]
    assigner = timestamp_assigner(FUNCTION, RECORDS.schema)
    with pytest.raises(EventTimeError, match=f"'{FUNCTION}': KeyError: 'clock'") as raised:
        assigner.extract_timestamps(RECORDS, None)
    assert isinstance(raised.value.__cause__, KeyError)


def test_an_error_lists_the_five_nearest_of_many_columns() -> None:
    schema = pa.schema([(f"column_{n}", pa.string()) for n in range(200)] + [("event_time", pa.int64())])
    with pytest.raises(OptionError) as raised:
        timestamp_assigner("event_tme", schema)
    assert "Columns: event_time (int64), " in str(raised.value)
    assert str(raised.value).endswith("and 196 more.")
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ("timestmp", "there is no such column; if the query has .schema"),
        ("Timestamps", "there is no such column"),
        ("key", r"column 'key' is binary, not timestamp or int64"),
        ("timestampType", r"column 'timestampType' is int32"),
        ("/a~2", "'~' is written '~0'"),
        ("no_such_module:f", "No module named 'no_such_module'"),
        ("json:no_such_function", "no_such_function"),
        ("json:__name__", "the name refers to an object of type str, not a function"),
        ("json:", "expected module:function"),
        ("a b:c", "expected module:function"),
    ],
)
def test_a_wrong_specification_is_an_error_that_lists_the_columns(spec: str, wrong: str) -> None:
    with pytest.raises(OptionError, match=wrong) as raised:
        timestamp_assigner(spec, SCHEMA)
    assert f"Invalid value for option 'scan.watermark.event-time': {spec!r}" in str(raised.value)
    assert "Columns: key (binary), value (binary), offset (int64), timestamp (timestamp[us, tz=UTC])" in str(
        raised.value
    )


@pytest.mark.parametrize(
    ("column", "wrong"),
    [
        (("v", pa.binary()), "needs a column 'value'"),
        (("value", pa.int64()), "to be binary or string, not int64"),
    ],
)
def test_a_json_pointer_needs_a_value_that_may_be_json(column: tuple[str, pa.DataType], wrong: str) -> None:
    with pytest.raises(OptionError, match=wrong):
        timestamp_assigner("/time", pa.schema([column]))


def test_an_error_names_the_column_of_documents_of_the_source() -> None:
    for spec in ("timestmp", "/a~2", "json:no_such_function"):
        with pytest.raises(OptionError, match="a JSON pointer into 'data' such as"):
            timestamp_assigner(spec, pa.schema([("data", pa.binary())]), value_column="data")


def test_a_timestamp_has_a_unit_of_its_own() -> None:
    with pytest.raises(OptionError, match=r"unit' has no effect: .*declare the column as bigint"):
        timestamp_assigner("timestamp", SCHEMA, unit="s")


@pytest.mark.parametrize(("unit", "factor"), [("s", 0.001), ("us", 1000), ("ns", 1_000_000)])
def test_integers_of_a_column_have_the_unit_that_is_given(unit: str, factor: float) -> None:
    """Integers in a column are converted from the given unit.

    Statistics of the column, which are in that unit, are not used.
    """
    assigner = timestamp_assigner("offset", SCHEMA, unit=unit)
    records = pa.record_batch({"offset": pa.array([int(NOW * factor), -1, None], pa.int64())})
    assert assigner.extract_timestamps(records, None).to_pylist() == [NOW, None, None]
    assert assigner.column is None
