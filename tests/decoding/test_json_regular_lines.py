"""Tests of decoding regular lines of JSON: what is decoded is what the decoder of documents finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flip27_stream.connectors.files.lines.line_blocks import starts_of_lines
from flip27_stream.decoding import json_columns, json_regular_lines
from flip27_stream.decoding.json_columns import JsonColumns
from flip27_stream.decoding.json_regular_lines import regular_columns

FIELDS = pa.schema(
    [
        ("text", pa.string()),
        ("id", pa.int64()),
        ("tiny", pa.int8()),
        ("share", pa.float64()),
        ("single", pa.float32()),
        ("at", pa.timestamp("us", "UTC")),
        ("none", pa.string()),
    ]
)
TEXT = st.text(
    st.characters(exclude_categories=["Cs"], min_codepoint=32, exclude_characters='"\\'), max_size=5
)
OBJECT = st.fixed_dictionaries(
    {
        "text": TEXT,
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "tiny": st.integers(-128, 127),
        "other": TEXT,
        "share": st.floats(allow_nan=False, allow_infinity=False),
        "single": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "unknown": st.none() | st.integers(0, 9),
        "at": st.sampled_from(["2024-02-29T12:34:56Z", "1969-12-31 23:59:59.123456Z"]),
    }
)


def _written(rows: list[dict[str, object]], signs: tuple[str, str]) -> list[bytes]:
    return [json.dumps(row, ensure_ascii=False, separators=signs, sort_keys=True).encode() for row in rows]


LINES = st.builds(
    _written, st.lists(OBJECT, min_size=1, max_size=5), st.sampled_from([(", ", ": "), (",", ":")])
)
SIGNS = st.sampled_from([bytes([sign]) for sign in b'{}[]",:\\ \t\r\n\x00\x7f\xc3\xa4-+.eE019axntN/'] + [b""])


def regular(data: bytes, fields: pa.Schema = FIELDS) -> Sequence[pa.Array] | None:
    starts = starts_of_lines(data)
    ends = np.append(starts[1:] - 1, len(data) - data.endswith(b"\n")) - 1
    return regular_columns(data, starts, ends, fields)


@given(lines=LINES, ended=st.booleans())
def test_regular_lines_have_the_values_of_documents(lines: list[bytes], ended: bool) -> None:
    found = regular(b"\n".join(lines) + b"\n" * ended)
    expected = JsonColumns(FIELDS).decode(pa.array(lines))
    assert found is not None
    for one, other in zip(found, expected.columns, strict=True):
        assert one.equals(other)


@patch.object(json_columns, "_ENOUGH", 1)
@given(lines=LINES, at=st.integers(0), removed=st.integers(0, 3), sign=SIGNS, again=SIGNS)
@example(lines=[b'{"id": 1}'], at=7, removed=1, sign=b"0", again=b"7")
@example(lines=[b'{"share": 1}'], at=10, removed=1, sign=b".", again=b"5")
@example(lines=[b'{"id": 1}', b'{"id": 1}'], at=7, removed=1, sign=b"-", again=b"")
def test_changed_bytes_are_found(
    lines: list[bytes], at: int, removed: int, sign: bytes, again: bytes
) -> None:
    """Lines with some bytes replaced are decoded as the decoder of documents decodes them, or not at all."""
    whole = b"\n".join(lines)
    at %= len(whole) + 1
    data = whole[:at] + sign + again + whole[at + removed :] + b"\n"
    found = JsonColumns(FIELDS, strict_utf8=True).decode_lines(data, starts_of_lines(data))
    if found is not None:
        documents = [line.removesuffix(b"\r") for line in data[:-1].split(b"\n")]
        expected = JsonColumns(FIELDS, strict_utf8=True).decode(pa.array(documents, pa.binary()))
        assert not any(expected.bad.to_pylist())
        for one, other in zip(found, expected.columns, strict=True):
            assert one.equals(other)


@pytest.mark.parametrize(
    "line",
    [
        b'{"id": 01}',
        b'{"id": -}',
        b'{"id": 1 }',
        b'{"id": nul}',
        b'{"text": null}',
        b'{"id": "1"}',
        b'{"text": 1}',
        b'{"share": .5}',
        b'{"share": 5.}',
        b'{"share": -.5}',
        b'{"share": 0x1}',
        b'{"share": NaN}',
        b'{"id": 1, "id": 2}',
        b'{"id": 1{"tiny": 2}',
        b'{"text": "\\n"}',
        b'{"text": "\t"}',
        b'{"text": "a"b}',
        b'{"id": 1}\r',
        b"{}",
        b'{"at": "2024-01-01T00:00:00"}',
        b'{"id": 1}{"id": 2}',
    ],
)
def test_other_lines_need_a_parser(line: bytes) -> None:
    """A line that is not regular is left to the parser, as the first line and as a later one."""
    good = b'{"id": 1}'
    for lines in ([line], [line, line], [good, line], [line, good]):
        with suppress(pa.ArrowInvalid):
            assert regular(b"\n".join(lines)) is None


@pytest.mark.parametrize(
    "line",
    [
        b"{" + b",".join(b'"c%d":1' % i for i in range(21)) + b"}",
        b'{"id": 1, "x": 2}',
        b'{"x": 1}',
        b'{"id": 1, "tiny": 2, "x": true}',
        b'{"id": 1, "tiny": 2, "x": [1]}',
        b'{"id": 1, "tiny": 2, "x": {}}',
        b'{"id": 1, "flag": true}',
        b'{"id": 1, "share": "1.5"}',
        b'{"id": 1, "tiny": 200}',
        b'{"id": 1, "at": "2024-01-01 00:00:00"}',
        b'{"id": 1, "\xff": 2, "tiny": 3, "share": 4}',
    ],
)
def test_the_first_line_alone_shows_that_a_parser_is_better(line: bytes) -> None:
    """Lines of many members, of few wanted ones or of other values are left to the parser before they are scanned."""
    fields = pa.schema([*FIELDS, ("flag", pa.bool_()), *((f"c{i}", pa.int64()) for i in range(21))])
    with patch.object(json_regular_lines, "_spans") as scan, suppress(pa.ArrowInvalid):
        assert regular(line, fields) is None
    scan.assert_not_called()


@pytest.mark.parametrize("count", [999, 1000])
def test_few_lines_are_parsed(count: int) -> None:
    """Lines have the same values whether there are enough to compare them or not."""
    lines = b"".join(b'{"id":%d,"text":"a"}\n' % i for i in range(count))
    with patch.object(json_columns, "regular_columns", wraps=regular_columns) as compared:
        found = JsonColumns(FIELDS).decode_lines(lines, starts_of_lines(lines))
    assert compared.called == (count >= 1000)
    assert found is not None
    assert found[0].to_pylist() == ["a"] * count
    assert found[1].to_pylist() == list(range(count))
