"""Tests of decoding JSON into columns: Arrow's parser and Python's agree, and a bad value changes no other."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.decoding.json_columns import JsonColumns
from flip27_stream.decoding.json_rows import JsonRows
from tests.decoding.support.json_cases import document, values_of

TIMESTAMP = pa.timestamp("us", tz="UTC")
FIELDS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("ok", pa.bool_()),
        ("day", pa.date32()),
        ("at", TIMESTAMP),
        ("cost", pa.decimal128(8, 2)),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.int32()), ("since", pa.date32())])),
        ("ratio", pa.float32()),
        ("sum", pa.decimal128(38, 10)),
        ("local", pa.timestamp("us")),
    ]
)
PARSED_BY_ARROW = {
    "tiny": pa.int8(),
    "whole": pa.int32(),
    "big": pa.int64(),
    "single": pa.float32(),
    "double": pa.float64(),
    "money": pa.decimal128(6, 2),
    "digits": pa.decimal128(18, 0),
    "huge": pa.decimal128(38, 10),
    "flag": pa.bool_(),
    "text": pa.string(),
    "day": pa.date32(),
    "at": TIMESTAMP,
    "local": pa.timestamp("us"),
    "wholes": pa.list_(pa.int32()),
    "texts": pa.list_(pa.string()),
    "nested": pa.list_(pa.list_(pa.int64())),
    "pair": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    "events": pa.list_(pa.struct([("d", pa.date32()), ("t", TIMESTAMP)])),
}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(-(2**63), 2**63 - 1) | st.none(),
        "name": TEXT | st.none(),
        "price": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
        "ok": st.booleans(),
        "day": st.dates().map(str),
        "at": st.datetimes().map(lambda t: t.isoformat() + "Z") | st.integers(-(10**9), 10**10),
        "cost": st.integers(-(10**7), 10**7).map(lambda n: n / 100) | st.sampled_from(["1.5", 7]),
        "tags": st.lists(TEXT | st.none(), max_size=3),
        "place": st.fixed_dictionaries({"x": st.integers(-9, 9), "since": st.dates().map(str)}) | st.none(),
        "ratio": st.floats(width=32, allow_nan=False, allow_infinity=False)
        | st.sampled_from([0.1, 7.038531e-26]),
        "sum": st.decimals(allow_nan=False, allow_infinity=False, places=9, max_value=10**9).map(float),
        "local": st.datetimes().map(lambda t: t.isoformat()),
        "other": st.recursive(TEXT | st.integers(), st.lists, max_leaves=3),
    },
)
GOOD = st.builds(
    lambda value, indent, around: (
        around + json.dumps(value, indent=indent, ensure_ascii=False) + around
    ).encode(),
    OBJECTS,
    st.sampled_from([None, None, None, 2]),
    st.sampled_from(["", "", "", "\n", " "]),
)
BAD = st.sampled_from(
    [b"{", b"}", b"x", b"[]", b'{"id":1', b'{"id":1}}', b'{"id":1}{"id":2}', b'{"name":"a}', b'{b"}', b'{"id":1}\n{}',
     b'{"id":"7"}', b'{"id":1.0}', b'{"ok":1,"name":"kept"}', b'{"name":"\xff"}', b'{"day":"2026-02-30"}', b"{}\x00",
     b'{"cost":1234567.8}', b'{"cost":1.005}', b'{"price":Inf}', b'{"price":NaN}', b'{"name":5.0}', b'{"place":3}',
     b'{"tags":["a",{"b": 1}]}', b'{"id":1,"id":2}', b'{"at":"2026-1-2 3:4"}', b'{"at":"soon"}', b"[" * 5000, b"null",
     b'{"id":3}\x00{}', b'{"id":\x003}', b"{'id':1,'name':'it\\'s \"x\"'}", b'{"id":1,"price":-INF}',
     b'{"id":1,"z":+Infinity}', b'{"id":1,"id":"x"}', b'{"id":"x","id":1}', b"\x0c"]
)  # fmt: skip

ODD = st.builds(
    lambda name, text: f'{{"{name}":{text}}}'.encode(),
    st.sampled_from(FIELDS.names),
    st.sampled_from(["0000-01-01", "0000-02-29T01:02:03Z", "-0001-02-03", "+12345-06-07", "9999999-01-01", "1_000",
                     " 1.5 ", "1,5", "1.", ".5", "INF", "+INF", "NaN", "2020-01T", "2020-01-01T00:00:00+18:30",
                     "2020-01-01T00:00:00+01:60", "2020-01-01T24:00:00Z", "\u00a02020-01-01"]).map(json.dumps)
    | st.sampled_from(["-0", "-0.0", "-NaN", "+NaN", "-Infinity", "-INF", "1e5", "1e30", "1e31", "1e38", "1e400",
                       "12345678901234567890123456789", "1.00000017881393432617187499", "7.038531e-26", "1e39"]),
)  # fmt: skip


def decoded(fields: pa.Schema, values: list[bytes | None]) -> tuple[list[list[Any]], list[bool]]:
    """Returns the columns as text, and which values are bad.

    The decoder is pickled first, as on its way to a task.
    """
    found = pickle.loads(pickle.dumps(JsonColumns(fields))).decode(pa.array(values, pa.binary()))
    return _plain(found.columns, found.bad, fields, len(values))


def one_by_one(fields: pa.Schema, values: list[bytes | None]) -> tuple[list[list[Any]], list[bool]]:
    found = JsonRows(fields).decode(pa.array(values, pa.binary()))
    return _plain(found.columns, found.bad, fields, len(values))


def _numbers(column: pa.Array) -> pa.Array:
    """Returns times as numbers, since Python's dates end at the year 9999."""
    if pa.types.is_date32(column.type):
        return column.view(pa.int32())
    return column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _plain(columns: Any, bad: Any, fields: pa.Schema, count: int) -> tuple[list[list[Any]], list[bool]]:
    for column, field in zip(columns, fields, strict=True):
        column.validate(full=True)
        assert column.type == field.type
        assert len(column) == count
    rows = [[repr(v) for v in _numbers(column).to_pylist()] for column in columns]
    return rows, bad.to_pylist()


@given(st.lists(GOOD | GOOD | BAD | ODD | st.none() | st.sampled_from([b"", b" \n"]), max_size=40))
def test_values_give_the_same_rows_together_and_alone(values: list[bytes | None]) -> None:
    """Values decoded at once give the rows that they give one by one, also beside values that are bad."""
    assert decoded(FIELDS, values) == one_by_one(FIELDS, values)


DEEP = st.sampled_from(
    [b'{"id":1,"z":' + b"[" * 3000 + b"]" * 3000 + b"}", b'{"z":' + b'{"z":' * 3000 + b"1" + b"}" * 3000 + b',"id":2}',
     b'{"name":' + b"[" * 3000 + b"]" * 3000 + b',"id":1}', b'{"id":1,"place":' + b"[" * 3000 + b"]" * 3000 + b"}"]
)  # fmt: skip


@given(st.lists(GOOD | BAD | ODD | DEEP, max_size=6))
def test_a_document_does_not_depend_on_its_neighbours(values: list[bytes | None]) -> None:
    """A document gives the same row beside others as alone, also if it is nested too deeply for Python's parser."""
    columns, bad = decoded(FIELDS, values)
    alone = [decoded(FIELDS, [value]) for value in values]
    assert bad == [bad for _, (bad,) in alone]
    assert columns == [[cells[i][0] for cells, _ in alone] for i in range(len(FIELDS))]


@given(st.lists(OBJECTS, min_size=1, max_size=20), st.data())
def test_written_objects_are_read_back(objects: list[dict[str, Any]], data: st.DataObject) -> None:
    """Objects that are written as JSON are read back unchanged, with bad values between them."""
    fields = pa.schema([FIELDS.field(name) for name in ("id", "name", "ok", "tags")])
    values = [json.dumps(value).encode() for value in objects]
    places = sorted(data.draw(st.sets(st.integers(0, len(values)), max_size=5)), reverse=True)
    for place in places:
        values.insert(place, b'{"id": broken}')
    found = JsonColumns(fields).decode(pa.array(values, pa.binary()))
    bad = found.bad.to_pylist()
    assert sum(bad) == len(places)
    rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
    kept = [row for row, wrong in zip(rows, bad, strict=True) if not wrong]
    assert kept == [tuple(value.get(name) for name in fields.names) for value in objects]


def test_few_bad_values_among_many_are_found() -> None:
    """A few bad values among many are found by halving.

    Two values that are one good document only together are both bad.
    """
    values = [json.dumps({"id": i, "name": str(i)}).encode() for i in range(5000)]
    for i in (0, 17, 2500, 4999):
        values[i] = b'{"id": "x", "name": "kept"}'
    values[100:102] = [b'{"name":"a}', b'{b"}']
    found = JsonColumns(pa.schema([FIELDS.field("id"), FIELDS.field("name")])).decode(pa.array(values))
    assert [i for i, bad in enumerate(found.bad.to_pylist()) if bad] == [0, 17, 100, 101, 2500, 4999]
    assert found.columns[0].null_count == 6
    assert found.columns[1][17].as_py() == "kept"
    assert found.columns[0][102].as_py() == 102


def test_lines_are_decoded_where_they_are() -> None:
    """``decode_lines`` decodes lines in their buffer.

    It returns ``None`` if Arrow reads a line differently or not at all.
    """
    columns = JsonColumns(pa.schema([FIELDS.field("id"), FIELDS.field("name")]))

    def found(*lines: bytes) -> list[list[Any]] | None:
        starts = np.cumsum([0, *(len(line) + 1 for line in lines[:-1])])
        made = columns.decode_lines(b"\n".join(lines) + b"\n", starts)
        return None if made is None else [column.to_pylist() for column in made]

    assert found(b'{"id":1,"name":"Info, Infinity"}', b'{"id":2}\r') == [[1, 2], ["Info, Infinity", None]]
    for odd in (
        b'{"id":2,"x":[Inf]}',
        b'{"id":2,"x":-NaN}',
        b'{"id":2}\x00{}',
        b' {"id":2}',
        b"null",
        b'{"id":2',
        b"",
    ):
        assert found(b'{"id":1}', odd) is None, odd
        assert found(odd, b'{"id":1}') is None, odd


def test_times_that_are_numbers_are_seconds() -> None:
    """A number in a timestamp column counts seconds, as in ``from_json``.

    Numbers and text may be mixed, and may alternate from batch to batch.
    """
    decoder = JsonColumns(pa.schema([("at", TIMESTAMP)]))
    for batch in (
        [b'{"at": 5}'] * 50,
        [b'{"at": "1970-01-01T00:00:05Z"}'] * 50,
        [b'{"at": 5}', b'{"at":"1970-01-01T00:00:05"}'] * 25,
    ):
        found = decoder.decode(pa.array(batch))
        assert found.all_right
        assert {time.timestamp() for time in found.columns[0].to_pylist()} == {5.0}


def test_maps_and_binary_values_are_decoded() -> None:
    """Maps and binary values are decoded one by one, since Arrow's parser has neither type."""
    fields = pa.schema([("m", pa.map_(pa.string(), pa.int32())), ("b", pa.binary())])
    rows, bad = decoded(fields, [b'{"m":{"x":1,"y":null},"b":"YWI="}', b'{"m":{"x":"1"},"b":"?"}', None])
    assert rows[0] == [repr([("x", 1), ("y", None)]), "None", "None"]
    assert rows[1] == [repr(b"ab"), "None", "None"]
    assert bad == [False, True, False]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"id": 1', "Expecting ',' delimiter at character 8"),
        (b"[1]", "it is not an object"),
        (b'{"place": {"x": "a"}}', "field place.x is not a whole number from -2147483648 to 2147483647"),
        (
            b'{"tags": ["a"], "day": "x", "ok": 3}',
            "field day is not a date such as 2026-01-31; field ok is not",
        ),
    ],
)
def test_an_error_says_what_is_wrong_with_a_value(value: bytes, why: str) -> None:
    assert why in JsonColumns(FIELDS).explain(value)


def test_numbers_that_are_not_finite_are_decoded_as_in_spark() -> None:
    fields = pa.schema([("price", pa.float64())])
    found = JsonColumns(fields).decode(pa.array([b'{"price":NaN}', b'{"price":"-INF"}', b'{"price":Inf}']))
    first, second, third = found.columns[0].to_pylist()
    assert math.isnan(first)
    assert (second, third) == (-math.inf, None)


@pytest.mark.parametrize(
    ("depth", "may_be_bad"),
    [(400, {False}), (600, {False, True}), (900, {False, True}), (100_000, {True})],
)
def test_a_deeply_nested_value_is_text_or_bad(depth: int, may_be_bad: set[bool]) -> None:
    """A value that is nested deeply becomes text, or is bad from a depth on that depends on the version of Python. It
    raises no error and does not change its neighbours.
    """
    nested = b"[" * depth + b"]" * depth
    found = JsonColumns(pa.schema([("name", pa.string())])).decode(
        pa.array([b'{"name":"a"}', b'{"name":' + nested + b"}", b'{"name":"b"}'])
    )
    bad = found.bad[1].as_py()
    assert bad in may_be_bad
    assert found.columns[0].to_pylist() == ["a", None if bad else nested.decode(), "b"]
    assert found.bad.to_pylist() == [False, bad, False]


def test_digits_that_do_not_fit_never_wrap() -> None:
    """A number with too many digits for its decimal column is bad.

    Arrow's parser wraps some of these numbers around.
    """
    decoder = JsonColumns(pa.schema([("a", pa.decimal128(38, 10))]))
    for number in (b"1e28", b"1e30", b"1e31", b"1e38", b"1e60", b"1" * 29, b"9" * 60):
        found = decoder.decode(pa.array([b'{"a":' + number + b"}"]))
        assert (found.columns[0].to_pylist(), found.bad) == ([None], pa.array([True])), number


def test_an_empty_array_gives_empty_columns() -> None:
    assert decoded(FIELDS, []) == ([[]] * len(FIELDS), [])


@pytest.mark.parametrize(("name", "kind"), PARSED_BY_ARROW.items())
def test_arrow_agrees_on_each_value(name: str, kind: pa.DataType) -> None:
    """Arrow's parser agrees with Python's on each value.

    Each is decoded alone, so that Arrow's is used where it succeeds.
    """
    fields = pa.schema([(name, kind), ("b", pa.int32())])
    values = [document(name, value) for value in values_of(name)]
    alone = [decoded(fields, [value]) for value in values]
    expected = [one_by_one(fields, [value]) for value in values]
    assert [
        (value, found, wanted)
        for value, found, wanted in zip(values, alone, expected, strict=True)
        if found != wanted
    ] == []
