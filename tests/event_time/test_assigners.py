"""Tests of the sources of event time: columns, JSON pointers and functions (``scan.watermark.event-time``)."""

from __future__ import annotations

import json
import pickle
import sys
import types
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flip27_stream.api import RecordTimestampAssigner, TimestampAssigner
from flip27_stream.errors import EventTimeError, OptionError
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.event_time.json_pointer import JsonPointer

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)
NOW = 1_700_000_000_000


def _times(spec: str, values: pa.Array, column: str = "value") -> list[int | None]:
    records = pa.record_batch({column: values})
    assigner = pickle.loads(pickle.dumps(timestamp_assigner(spec, records.schema)))
    times = assigner.extract_timestamps(records, None)
    assert times.type == pa.int64()
    found: list[int | None] = times.to_pylist()
    return found


def _json(spec: str, *documents: Any) -> list[int | None]:
    texts = [
        document if isinstance(document, bytes | None) else json.dumps(document) for document in documents
    ]
    return _times(
        spec, pa.array([text.encode() if isinstance(text, str) else text for text in texts], pa.binary())
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
        (pa.int64(), [0, 2**63 - 1, -1, None], [0, 2**63 - 1, None, None]),
    ],
)
def test_a_column_is_rounded_down_and_negative_is_none(
    kind: pa.DataType, ticks: list[int | None], ms: list[int | None]
) -> None:
    column = pa.array(ticks, pa.int64()).cast(kind)
    assert _times("at", column, "at") == ms
    assert _times("at", column.slice(1), "at") == ms[1:]


def test_a_json_pointer_finds_milliseconds_and_iso_8601() -> None:
    documents = [{"event": {"time": NOW}}, {"event": {"time": "2023-11-14T22:13:20.5Z"}}, {"event": {}}, {}]
    assert _json("/event/time", *documents) == [NOW, NOW + 500, None, None]


def test_the_column_value_may_be_a_string() -> None:
    assert _times("/t", pa.array(['{"t": 7}', None, "{}"])) == [7, None, None]
    assert _times("/t", pa.array(['{"t": 7}', None, '{"t": 8}']).slice(1)) == [None, 8]
    assert _times("/t", pa.array([], pa.string())) == []


@pytest.mark.parametrize(
    ("pointer", "document", "ms"),
    [
        ("/a~1b", {"a/b": 1}, 1),
        ("/m~0n", {"m~n": 2}, 2),
        ("/~01", {"~1": 3}, 3),
        ("/", {"": 4}, 4),
        ("/a/", {"a": {"": 5}}, 5),
        ("/a/1", {"a": [5, 6]}, 6),
        ("/a/1", {"a": {"1": 7}}, 7),
        ("/a/01", {"a": [5, 6]}, None),
        ("/a/-", {"a": [5, 6]}, None),
        ("/a/2", {"a": [5, 6]}, None),
        ("/0/t", [{"t": 8}], 8),
        ("/a/b", {"a": "b"}, None),
        ("/ä", {"ä": 9}, 9),
    ],
)
def test_json_pointers_are_those_of_rfc_6901(pointer: str, document: Any, ms: int | None) -> None:
    assert _json(pointer, document) == [ms]


@pytest.mark.parametrize(
    "document",
    [
        None,
        b"",
        b"{",
        b"null",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"t": 5}}',
        b'{"t": 5}{"t": 6}',
        b'{"t": 5}\x00',
    ]
    + [
        b'{"t": %s}' % value
        for value in (b"null", b"true", b"-1", b"1.0", b"1e3", b"NaN", b"Inf", b"[5]", b"{}")
    ]
    + [
        b'{"t": %s}' % value
        for value in (b"9223372036854775808", b"9" * 5000, b'"5"', b'"soon"', b"05", b"+5")
    ],
)
def test_anything_else_has_no_event_time_and_costs_its_neighbours_nothing(document: bytes | None) -> None:
    assert _json("/t", {"t": 1}, document, {"t": 2}) == [1, None, 2]


@pytest.mark.parametrize(
    "document", [b'{"t": 5, "x": NaN}', b"{'t': 5}", b'{"t": 5, "x": -INF}', b'{"t": 4, "t": 5}']
)
def test_a_document_that_decodes_into_columns_has_an_event_time(document: bytes) -> None:
    """A JSON pointer accepts the same documents as the decoder of columns."""
    assert _json("/t", {"t": 1}, document, {"t": 2}) == [1, 5, 2]


def test_documents_do_not_run_into_each_other() -> None:
    """Documents are parsed apart from each other.

    A batch with as many objects as documents may still have bad documents.
    """
    assert _json("/t", b'{"t": 1}{"t": 2}', b"", {"t": 3}) == [None, None, 3]
    assert _json("/t", b'{"t": 1}{"t": 2}', b'{"t":', b"3}", {"t": 4}) == [None, None, None, 4]
    assert _json("/t", b'{"t": 1}{"t": 2}', b'{"t": 3}\x00{}', {"t": 4}) == [None, None, 4]
    assert _json("/t", b'{\n "t": 1\n}', b'{"t": 2}') == [1, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2023-11-14T22:13:20Z", NOW),
        ("2023-11-14t22:13:20z", NOW),
        ("2023-11-14 22:13:20", NOW),
        ("2023-11-14T23:13:20+01:00", NOW),
        ("2023-11-14T23:13:20+01", NOW),
        ("2023-11-14T18:43:20-0330", NOW),
        ("20231114T221320Z", NOW),
        ("2023-11-14T22:13:20.123999999Z", NOW + 123),
        ("2023-11-14T22:13:20,1Z", NOW + 100),
        ("2023-11-14T22:13", NOW - 20_000),
        ("2023-11-14", 1_699_920_000_000),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999Z", None),
        ("2023-02-29", None),
        ("2023-11-14T24:00:00", None),
        ("2023-11-14T22:60:00", None),
        ("2023-11-14T22:13:60", None),
        ("2023-11-14T22:1320", None),
        ("2023-1114", None),
        ("2023-11-14T", None),
        ("0000-01-01", None),
        ("2023-11-14T22:13:20Z ", None),
        ("２０２３-11-14", None),
    ],
)
def test_iso_8601(text: str, expected: int | None) -> None:
    assert _json("/t", {"t": text}) == [expected]


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001 - the zone is drawn apart
    st.integers(-23 * 60, 23 * 60),
    st.sampled_from(["T", " "]),
)
def test_iso_8601_agrees_with_datetime(moment: datetime, zone: int, separator: str) -> None:
    at = moment.replace(tzinfo=timezone(timedelta(minutes=zone)))
    since = at - datetime(1970, 1, 1, tzinfo=timezone.utc)
    expected = since // timedelta(milliseconds=1)
    assert _json("/t", {"t": at.isoformat(separator)}) == [expected if expected >= 0 else None]


SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(0, NOW)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["2023-11-14T22:13:20Z", "NaN", " Inf ", "\x00", "}\n{"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "", "0", "ä", "a\x00"]), inner)
    ),
    max_leaves=8,
)
GOOD = st.integers(0, NOW).map(lambda time: {"a": {"b": time}, "0": time, "note": "x"})
TOKENS = [
    *(b"{", b"}", b"[", b"]", b":", b",", b" ", b"\n", b"\\", b'"', b"\x00", b"\xff", b"\xef\xbb\xbf"),
    *(
        b'{"a":{"b":1}}',
        b'"a":',
        b'"a":{"b":2}',
        b'"b"',
        b"0",
        b"1",
        b"-",
        b"e5",
        b"NaN",
        b"Inf",
        b"Infinity",
    ),
]
ISO_8601 = ["2023-11-14T22:13:20Z", "20231114T221320", "2023-11-14", "soon", "\ud800", "ä"]
FRAGMENTS = st.lists(st.sampled_from(TOKENS), max_size=12).map(b"".join)


@st.composite
def documents(draw: st.DrawFn) -> list[bytes | None]:
    """Draws documents, mostly of one family at a time, so that Arrow's parser succeeds often enough."""
    made = st.tuples(draw(st.sampled_from([GOOD, VALUES])), st.booleans()).map(
        lambda drawn: json.dumps(drawn[0], ensure_ascii=drawn[1]).encode(errors="surrogatepass")
    )
    broken = st.tuples(made, st.integers(0, 40), FRAGMENTS).map(lambda t: t[0][: t[1]] + t[2] + t[0][t[1] :])
    texts = st.sampled_from(ISO_8601).map(lambda text: json.dumps({"a": text}).encode())
    family = draw(st.sampled_from([texts, made, made | st.none(), made | FRAGMENTS, made | broken]))
    return draw(st.lists(family, max_size=6))


@given(documents(), st.sampled_from(["/a", "/a/b", "/0", "/", "/ä", "/a/0/b"]))
@example([b'{"a": 1, "x": NaN}', b'{"a": 2, "x": [-Inf]}', b'{"a": 3}'], "/a")
@example([b'{"a": 1, "x": "\xff"}', b'{"\xff": 0, "a": 2}'], "/a")
@example([b'{"a": 1, "x": ' + b"9" * 5000 + b"}"], "/a")
@example([b'{"a": 1, "x": ' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"a": 2}', None], "/a")
@example([b'{"a": 1, "a": 2}', b'{"a": 3}'], "/a")
@example([b'{"a": 1}{"a": 2}', b'{"a": 3}\x00{}', b'{"a": 4}'], "/a")
def test_parsing_at_once_and_one_by_one_agree(texts: list[bytes | None], pointer: str) -> None:
    """The event time of a record does not depend on the records that it is parsed with, since positions are found by
    event time.
    """
    expected = [JsonPointer(pointer).time(text) for text in texts]
    assert _times(pointer, pa.array(texts, pa.binary())) == expected


def test_plain_documents_are_parsed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: JsonPointer, document: bytes | None) -> int | None:
        raise AssertionError("parsed one by one")

    monkeypatch.setattr(JsonPointer, "time", refuse)
    assert _json("/a/b", {"a": {"b": NOW}}, None, {"a": None}, {"a": {"b": -1}, "c": [1.5, "NaN"]}) == [
        *(NOW, None, None, None)
    ]
    assert _json("/a", {"a": "2023-11-14T22:13:20Z"}, None, {"a": None}, {"a": "soon"}) == [
        NOW,
        None,
        None,
        None,
    ]


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
def test_what_a_function_may_not_return_is_named(
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


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ("timestmp", "there is no such column"),
        ("Timestamps", "there is no such column"),
        ("key", r"column 'key' is binary, not timestamp or int64"),
        ("timestampType", r"column 'timestampType' is int32"),
        ("/a~2", "'~' is written '~0'"),
        ("no_such_module:f", "No module named 'no_such_module'"),
        ("json:no_such_function", "no_such_function"),
        ("json:__name__", "it is an object of type str, not a function"),
        ("json:", "expected module:function"),
        ("a b:c", "expected module:function"),
    ],
)
def test_a_bad_spec_is_an_option_error_that_lists_what_is_there(spec: str, wrong: str) -> None:
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
