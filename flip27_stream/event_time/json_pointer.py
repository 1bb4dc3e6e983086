"""Event times at a JSON pointer (RFC 6901), for columns of JSON documents."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from flip27_stream.event_time.units import MILLISECONDS, milliseconds_of, to_milliseconds

_LARGEST: Final = 2**63 - 1
_EPOCH: Final = date(1970, 1, 1).toordinal()
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_ISO_8601: Final = re.compile(
    r"([0-9]{4})(-?)([0-9]{2})\2([0-9]{2})"
    r"(?:[Tt ]([0-9]{2})(:?)([0-9]{2})(?:\6([0-9]{2})(?:[.,]([0-9]+))?)?"
    r"(?:[Zz]|([+-])([0-9]{2}):?([0-9]{2})?)?)?"
)

# What Arrow's parser takes for JSON and Python's does not, or what may stop it early.
_DISPUTED: Final = r"\x00|[\s:,\[-](?:NaN|Inf(?:inity)?)[\s,\]}]"
_DISPUTED_WORDS: Final = (b"\x00", b"NaN", b"Inf")


@dataclass(frozen=True)
class JsonPointer:
    """Finds event times in JSON documents.

    An event time is an integer >= 0 (of ``unit``, 64 bits) or an ISO-8601 date and time, extended or basic, in UTC
    where it has no zone, rounded down to ms. Anything else, such as a document that does not parse, has none.
    """

    text: str
    unit: str = MILLISECONDS

    def __post_init__(self) -> None:
        if not self.text.startswith("/"):
            raise ValueError("a JSON pointer starts with '/'")
        if re.search("~(?![01])", self.text):
            raise ValueError("'~' is written '~0' in a JSON pointer, and '/' in a name '~1'")

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        return tuple(token.replace("~1", "/").replace("~0", "~") for token in self.text[1:].split("/"))

    def times(self, documents: pa.Array) -> pa.Int64Array:
        """Event times (ms) of binary or string ``documents``, null where there is none.

        Arrow parses all plain documents at once. Where that fails, which anything but integers makes it do,
        and for documents that are not plain, Python parses one by one: the result is the same.
        """
        documents = documents.cast(pa.binary())
        plain = _plain(documents)
        fast = self._times_at_once(pc.if_else(plain, documents, pa.scalar(b"{}", pa.binary())))
        if fast is None:
            return pa.array(map(self.time, documents.to_pylist()), pa.int64())
        odd = pc.and_(pc.invert(plain), documents.is_valid())
        if not pc.any(odd).as_py():
            return fast
        slow = pa.array(map(self.time, documents.filter(odd).to_pylist()), pa.int64())
        return pc.replace_with_mask(fast, odd, slow)

    def time(self, document: bytes | None) -> int | None:
        """Event time (ms) of one document."""
        if document is None:
            return None
        try:
            # Bytes that are no UTF-8 stay what they are: they matter only where they are pointed at.
            value = _DECODER.decode(document.decode("utf-8", "surrogateescape"))
        except ValueError:
            return None
        except RecursionError:
            return self._time_of_deep(document)
        for token in self.tokens:
            if isinstance(value, dict):
                value = value.get(token)
            elif isinstance(value, list) and _INDEX.fullmatch(token) and int(token) < len(value):
                value = value[int(token)]
            else:
                return None
        if isinstance(value, str):
            return _iso_8601(value)
        is_time = type(value) is int and 0 <= value <= _LARGEST
        return milliseconds_of(value, self.unit) if is_time else None

    def _time_of_deep(self, document: bytes) -> int | None:
        """Event time (ms) of a document that is nested too deeply for Python, as far as Arrow can tell."""
        documents = pa.array([document], pa.binary())
        times = self._times_at_once(documents) if _plain(documents)[0].as_py() else None
        return None if times is None else times[0].as_py()

    def _times_at_once(self, documents: pa.Array) -> pa.Int64Array | None:
        """Times of plain ``documents``, or ``None`` where Arrow cannot tell.

        Each starts with ``{`` and ends with ``}``. No JSON goes on over ``}{``, so each is at least one
        object, and as many objects as documents are one each.
        """
        if len(documents) == 0:
            return pa.array([], pa.int64())
        text = _joined(documents)
        try:
            table = pj.read_json(
                pa.BufferReader(text),
                read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=self._schema, unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(documents):
            return None
        times = table.column(0).combine_chunks()
        for _ in self.tokens[1:]:
            times = pc.struct_field(times, 0)
        return to_milliseconds(times, self.unit)

    @cached_property
    def _schema(self) -> pa.Schema:
        kind = pa.int64()
        for token in reversed(self.tokens[1:]):
            kind = pa.struct([(token, kind)])
        return pa.schema([(self.tokens[0], kind)])


def _plain(documents: pa.Array) -> pa.BooleanArray:
    """Which documents look like objects, and hold nothing that Arrow and Python parse differently."""
    plain = pc.and_(pc.starts_with(documents, "{"), pc.ends_with(documents, "}")).fill_null(False)
    text = _joined(documents.fill_null(b"")).to_pybytes()
    if any(word in text for word in _DISPUTED_WORDS):
        plain = pc.and_not(plain, pc.match_substring_regex(documents, _DISPUTED).fill_null(False))
    return plain


def _joined(documents: pa.Array) -> pa.Buffer:
    """All ``documents``, one a line."""
    return pc.binary_join(pa.ListArray.from_arrays([0, len(documents)], documents), b"\n")[0].as_buffer()


def _iso_8601(text: str) -> int | None:
    parts = _ISO_8601.fullmatch(text)
    if parts is None:
        return None
    year, _, month, day, hour, _, minute, second, fraction, sign, zone_hour, zone_minute = parts.groups("0")
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        return None
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59 or int(zone_hour) > 23 or int(zone_minute) > 59:
        return None
    zone = (int(zone_hour) * 60 + int(zone_minute)) * (-1 if sign == "-" else 1)
    minutes = (days * 24 + int(hour)) * 60 + int(minute) - zone
    time = (minutes * 60 + int(second)) * 1000 + int(fraction[:3].ljust(3, "0"))
    return time if time >= 0 else None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= 20 else None


def _no_event_time(number: str) -> None:
    """A number with a fraction or an exponent."""


_DECODER: Final[Any] = json.JSONDecoder(
    parse_constant=_no_constant, parse_int=_integer, parse_float=_no_event_time
)
