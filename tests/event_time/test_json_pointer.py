"""Tests of JSON pointers as the source of event time: pointers, documents, times in text."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flip27_stream.event_time.json_pointer import JsonPointer
from tests.event_time.support.extracted import NOW, times
from watermark_alignment.event_time_checks import no_event_time
from watermark_alignment.planner import END_OF_TIME


def _json(spec: str, *documents: Any) -> list[int | None]:
    texts = [
        document if isinstance(document, bytes | None) else json.dumps(document) for document in documents
    ]
    return times(
        spec, pa.array([text.encode() if isinstance(text, str) else text for text in texts], pa.binary())
    )


def test_a_json_pointer_finds_milliseconds_and_iso_8601() -> None:
    documents = [{"event": {"time": NOW}}, {"event": {"time": "2023-11-14T22:13:20.5Z"}}, {"event": {}}, {}]
    assert _json("/event/time", *documents) == [NOW, NOW + 500, None, None]


def test_the_greatest_number_is_not_the_greatest_event_time() -> None:
    """``Long.MAX_VALUE`` is the horizon above all event times. A record at that time would never be read."""
    documents = [b'{"t": 9223372036854775807}', b'{"t": 9223372036854775806}']
    pointer = JsonPointer("/t")
    assert pointer.times(pa.array(documents)).to_pylist() == [END_OF_TIME - 1] * 2
    assert [pointer.time(document) for document in documents] == [END_OF_TIME - 1] * 2


def test_the_column_value_may_be_a_string() -> None:
    assert times("/t", pa.array(['{"t": 7}', None, "{}"])) == [7, None, None]
    assert times("/t", pa.array(['{"t": 7}', None, '{"t": 8}']).slice(1)) == [None, 8]
    assert times("/t", pa.array([], pa.string())) == []


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
def test_a_malformed_document_has_no_event_time_and_does_not_change_others(document: bytes | None) -> None:
    assert _json("/t", {"t": 1}, document, {"t": 2}) == [1, None, 2]


@pytest.mark.parametrize(
    "document", [b'{"t": 5, "x": NaN}', b"{'t': 5}", b'{"t": 5, "x": -INF}', b'{"t": 4, "t": 5}']
)
def test_a_document_that_decodes_into_columns_has_an_event_time(document: bytes) -> None:
    """A JSON pointer accepts the same documents as the decoder of columns."""
    assert _json("/t", {"t": 1}, document, {"t": 2}) == [1, 5, 2]


def test_documents_are_parsed_apart() -> None:
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
        ("2023-11-14t22:13:20Z", None),
        ("2023-11-14T22:13:20z", None),
        ("2023-11-14 22:13:20", NOW),
        ("2023-11-14T23:13:20+01:00", NOW),
        ("2023-11-14T23:13:20+01", NOW),
        ("2023-11-14T18:43:20-0330", NOW),
        ("20231114T221320Z", None),
        ("2023-11-14T22:13:20.123999999Z", NOW + 123),
        ("2023-11-14T22:13:20,1Z", None),
        ("2023-11-14T22:13:20.1 UTC", NOW + 100),
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
        ("2023-11-14T22:13:20Z ", NOW),
        ("２０２３-11-14", None),
    ],
)
def test_times_in_text_are_those_of_timestamp_columns(text: str, expected: int | None) -> None:
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


TIMES = ["2023-11-14T22:13:20Z", "2023-1-4 2:03", "2023-11-14", "2023-02-30", "soon", "\ud800", "ä"]


FRAGMENTS = st.lists(st.sampled_from(TOKENS), max_size=12).map(b"".join)


@st.composite
def documents(draw: st.DrawFn) -> list[bytes | None]:
    """Draws documents, mostly of one family at a time, so that Arrow's parser succeeds often enough."""
    made = st.tuples(draw(st.sampled_from([GOOD, VALUES])), st.booleans()).map(
        lambda drawn: json.dumps(drawn[0], ensure_ascii=drawn[1]).encode(errors="surrogatepass")
    )
    broken = st.tuples(made, st.integers(0, 40), FRAGMENTS).map(lambda t: t[0][: t[1]] + t[2] + t[0][t[1] :])
    texts = st.sampled_from(TIMES).map(lambda text: json.dumps({"a": text}).encode())
    family = draw(st.sampled_from([texts, made, made | st.none(), made | FRAGMENTS, made | broken]))
    return draw(st.lists(family, max_size=6))


@given(documents(), st.sampled_from(["/a", "/a/b", "/0", "/", "/ä", "/a/0/b"]))
@example([b'{"a": 1, "x": NaN}', b'{"a": 2, "x": [-Inf]}', b'{"a": 3}'], "/a")
@example([b'{"a": 1, "x": "\xff"}', b'{"\xff": 0, "a": 2}'], "/a")
@example([b'{"a": 1, "x": ' + b"9" * 5000 + b"}"], "/a")
@example([b'{"a": 1, "x": ' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"a": 2}', None], "/a")
@example([b'{"a": 1, "a": 2}', b'{"a": 3}'], "/a")
@example([b'{"a": 1}{"a": 2}', b'{"a": 3}\x00{}', b'{"a": 4}'], "/a")
def test_documents_have_the_same_times_together_and_alone(texts: list[bytes | None], pointer: str) -> None:
    """The event time of a record does not depend on the records that it is parsed with, since positions are found by
    event time.
    """
    expected = [JsonPointer(pointer).time(text) for text in texts]
    assert times(pointer, pa.array(texts, pa.binary())) == expected


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


def test_the_warning_names_a_form_that_is_taken() -> None:
    told = no_event_time("clicks", "/t", 100, "")
    [form] = re.findall(r"[0-9]{4}-\S+Z", told)
    assert _json("/t", {"t": form})[0] is not None
    assert "ISO" not in told, "some forms of ISO 8601 are not taken"
