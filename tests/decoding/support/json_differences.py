"""The JSON documents that this project decodes differently from Spark, by the rows of tables in ``docs/columns.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.decoding.support.json_cases import document


def _in(column: str, *values: str) -> list[bytes]:
    return [document(column, value) for value in values]


def _texts(column: str, *texts: str) -> list[bytes]:
    return _in(column, *(f'"{text}"' for text in texts))


FROM_JSON: Final[Mapping[str, Sequence[bytes]]] = {
    "`tinyint` from 128 to 255": _in("tiny", "128"),
    "`-0` in a `float` or `double`": [*_in("single", "-0"), *_in("double", "-0")],
    "a number in a `string`": [
        *_in("text", "-0", "1e2", "1E2", "1e-2", "1e+2", "1.50", "1e400", "-1e400", "1e-400", "1e30", "1e38"),
        *_in("text", "12345678901234.5", "NaN", "Infinity", "-Infinity", "+Infinity", "+INF", "-INF"),
        *_in("text", '{"a":{"b":2.50},"c":[true,null,-0,1e5,NaN]}', '{"x":1.50,"y":[1, 2.0,"é"]}'),
        *_in("notes", '{"x":1.50,"y":[1, 2.0,"é"]}', '{"x":[1, 2],"y":1.50,"z":"s"}'),
    ],
    "a character beyond U+FFFF in an object or array in a `string`": _in("text", '{"k":"😀","l":"\\u0008\\/"}'),
    "an error in the syntax": [
        *(document(column, "[1 2]") for column in ("text", "wholes", "texts")),
        *(document(column, '{"x":1,}') for column in ("text", "pair", "deep", "counts", "notes", "places")),
        *_texts("bytes", "\\u00zz", "\\x41"),
    ],
    "base 64 that ends within a group": _texts("bytes", "x", "1", "+Infinity", "YQ=", "Y"),
    "base 64 after base 64": _texts("bytes", "YWI=YWI="),
    "a `date` that is a number": _texts(
        "day", "1", "-1", "+1", "\\u0661", "20200102", "20260131", "123", "-123", "99999999", "0"
    ),
    "a time zone by name": [
        *_texts("day", "2020-01-02GMT"),
        *_texts("at", "2020-01-02GMT", "1883-11-18T12:00:00 America/New_York"),
        *_texts("at", "2021-03-28T02:30:00 Europe/Berlin", "2021-10-31T02:30:00 Europe/Berlin"),
        *(
            document("at", f'"2020-01-02T03:04:05{zone}"')
            for zone in (" Europe/Berlin", "Europe/Berlin", " America/Los_Angeles", " EST", " PST", " CET", " JST",
                         "GMT0", "Zulu", " Etc/GMT-14")
        ),
    ],
    "an offset above 18:00": _texts(
        "at", "2020-01-02T03:04:05+18:01", "2020-01-02T03:04:05+19:00", "2020-01-02T03:04:05+23:59"
    ),
    "an offset after a time without seconds": _texts(
        "at", "2020-01-02T03:04Z", "2020-01-02 03:04+02:00", "2020-01-02T03Z"
    ),
    "seconds beyond the range of a `timestamp`": _in(
        "at", "9223372036854775807", "-9223372036854775808", "9223372036855"
    ),
    "a name repeated in a `map`": [
        *_in("counts", '{"x":1,"x":2}', '{"x":2,"x":null}', '{"x":1,"x":null}'),
        *_in("notes", '{"x":1,"x":2}', '{"x":"z","x":2}', '{"x":2,"x":"z"}', '{"x":2,"x":null}'),
        *_in("places", '{"k":{"x":1},"k":{"x":2}}'),
    ],
    "text after the object": [
        b'{"b":1}}', b'{"b":1}x', b'{"b":1} x', b'{"b":1}{"b":2}', b'{"b":1},', b'{"b":1}\x00', b'{"b":1} // c',
        b'{"b":1}\xff', b'{"b":1}\xef\xbb\xbf', b"{}{}", b"{}null",
    ],
    "bytes that are not UTF-8": [b'{"b":1,"text":"\xed\xa0\x80"}'],
    "Jackson's limits": [
        b'{"b":1,"text":' + b"[" * 800 + b"]" * 800 + b"}",
        b'{"b":1,"z":' + b"7" * 1001 + b"}",
        b'{"b":1,"double":' + b"7" * 1001 + b"}",
    ],
}  # fmt: skip
"""Documents that differ from ``from_json``: they have another value, or are bad for one of the two only."""

_BY_FILES_ALONE: Final[Mapping[str, Sequence[bytes]]] = {
    "what is no text in a `string`": [
        *_in("text", "+Infinity", "+INF", "-INF", "{'x':1}", '{"x":1.50,"y":[1, 2.0,"é"]}'),
        *_in("text", '{"y": {"k": [ ] , "é": "\\u001f"}}', '{"k":"😀","l":"\\u0008\\/"}'),
        *_in(
            "pair",
            '{"x":1.50,"y":[1, 2.0,"é"]}',
            '{"y": {"k": [ ] , "é": "\\u001f"}}',
            '{"x":1,"y":{"z": 1}}',
        ),
        *_in("notes", '{"x":1.50,"y":[1, 2.0,"é"]}', '{"y": {"k": [ ] , "é": "\\u001f"}}'),
        *_in("notes", '{"x":[1, 2],"y":1.50,"z":"s"}'),
    ],
    "half a surrogate pair in a name in a `map`": _in("counts", '{"\\ud800":1}'),
    "letters beyond ASCII in base 64": _texts("bytes", "😀", "é"),
    "bytes that are not UTF-8": [
        b'{"b":1,"text":"\xc3"}',
        b'{"b":1,"text":"\xe2\x82"}',
        b'{"b":1,"text":"\xc0\xaf"}',
    ],
    "the mark of an encoding before an object": [b'\xef\xbb\xbf{"b":1}', b"\xff\xfe{\x00}\x00"],
}
_BY_FROM_JSON_ALONE: Final = (
    "a number in a `string`",
    "a character beyond U+FFFF in an object or array in a `string`",
    "bytes that are not UTF-8",
)

JSON_FILES: Final[Mapping[str, Sequence[bytes]]] = {
    **_BY_FILES_ALONE,
    **{title: documents for title, documents in FROM_JSON.items() if title not in _BY_FROM_JSON_ALONE},
}
"""Documents that differ from Spark's own source of JSON files."""

ARRAYS_AT_THE_TOP: Final[Mapping[bytes, int]] = {b'[{"b":1}]': 1, b'[{"b":1},{"b":2}]': 2, b"[]": 0}
"""Lines that are bad here, with the number of rows that Spark's source makes of each."""
