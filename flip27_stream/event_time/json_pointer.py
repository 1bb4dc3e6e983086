"""Finds event times in columns of JSON documents with a JSON pointer (RFC 6901)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.decoding.frames import without_frames
from flip27_stream.decoding.json_batches import one_a_line, parsed, plain_objects
from flip27_stream.decoding.json_documents import DocumentError, Number, parse_document
from flip27_stream.event_time.units import MILLISECONDS, milliseconds_of, to_milliseconds

_LARGEST: Final = 2**63 - 1
_EPOCH: Final = date(1970, 1, 1).toordinal()
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_ISO_8601: Final = re.compile(
    r"([0-9]{4})(-?)([0-9]{2})\2([0-9]{2})"
    r"(?:[Tt ]([0-9]{2})(:?)([0-9]{2})(?:\6([0-9]{2})(?:[.,]([0-9]+))?)?"
    r"(?:[Zz]|([+-])([0-9]{2}):?([0-9]{2})?)?)?"
)
_MILLISECONDS: Final = re.compile(r"-0|[0-9]{1,19}")


@dataclass(frozen=True)
class JsonPointer:
    """Finds event times in JSON documents.

    An event time is an integer >= 0 of 64 bits, or an ISO-8601 date and time, extended or basic, rounded down to ms and
    in UTC if it has no zone. Documents with other values there, or that cannot be parsed, have no event time.

    Attributes:
        text: The pointer.
        unit: The unit of integers.
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
        """The names and indexes of the pointer, unescaped."""
        return tuple(token.replace("~1", "/").replace("~0", "~") for token in self.text[1:].split("/"))

    def times(self, documents: pa.Array) -> pa.Int64Array:
        """Returns the event times (ms) of ``documents``, binary or strings; null for documents without an event time.

        Documents may begin with the frame of a schema registry, which no document in JSON begins with.

        Arrow parses all plain documents at once. Python parses the other documents one by one, or all documents if
        Arrow fails, as on a mix of integers and strings. The result is the same.
        """
        documents = without_frames(documents.cast(pa.binary()))
        plain = plain_objects(documents)
        fast = self._times_at_once(pc.if_else(plain, documents, pa.scalar(b"{}", pa.binary())))
        if fast is None:
            return pa.array(map(self.time, documents.to_pylist()), pa.int64())
        odd = pc.and_(pc.invert(plain), documents.is_valid())
        if not pc.any(odd).as_py():
            return fast
        slow = pa.array(map(self.time, documents.filter(odd).to_pylist()), pa.int64())
        return pc.replace_with_mask(fast, odd, slow)

    def time(self, document: bytes | None) -> int | None:
        """Returns the event time (ms) of one document; ``None`` if it has none."""
        if document is None:
            return None
        try:
            value = self._found_in(parse_document(document))
        except DocumentError:
            return None
        except RecursionError:
            return self._time_of_deep(document)
        if type(value) is Number and _MILLISECONDS.fullmatch(value) and int(value) <= _LARGEST:
            return milliseconds_of(int(value), self.unit)
        return _iso_8601(value) if type(value) is str else None

    def _found_in(self, value: Any) -> Any:
        """Returns the value at the pointer; ``None`` if there is none.

        Of fields with the same name, the last one counts.
        """
        for token in self.tokens:
            if type(value) is tuple:
                value = next((item for name, item in reversed(value) if name == token), None)
            elif type(value) is list and _INDEX.fullmatch(token) and int(token) < len(value):
                value = value[int(token)]
            else:
                return None
        return value

    def _time_of_deep(self, document: bytes) -> int | None:
        """Returns the event time (ms) of a document that is nested too deeply for Python; ``None`` without one."""
        documents = pa.array([document], pa.binary())
        times = self._times_at_once(documents) if plain_objects(documents)[0].as_py() else None
        return None if times is None else times[0].as_py()

    def _times_at_once(self, documents: pa.Array) -> pa.Int64Array | None:
        """Returns the event times (ms) of plain ``documents``; ``None`` if Arrow cannot parse them."""
        if len(documents) == 0:
            return pa.array([], pa.int64())
        text = one_a_line(documents)
        for kind in (pa.int64(), pa.string()):
            try:
                table = parsed(text, len(documents), self._schema(kind))
            except pa.ArrowInvalid:
                continue
            return None if table is None else self._times_in(table)
        return None

    def _times_in(self, table: pa.Table) -> pa.Int64Array:
        found = table.column(0).combine_chunks()
        for _ in self.tokens[1:]:
            found = pc.struct_field(found, 0)
        if pa.types.is_string(found.type):
            texts = found.view(pa.binary()).to_pylist()
            return pa.array(
                (None if text is None else _iso_8601(text.decode(errors="replace")) for text in texts),
                pa.int64(),
            )
        return to_milliseconds(found, self.unit)

    def _schema(self, kind: pa.DataType) -> pa.Schema:
        for token in reversed(self.tokens[1:]):
            kind = pa.struct([(token, kind)])
        return pa.schema([(self.tokens[0], kind)])


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
