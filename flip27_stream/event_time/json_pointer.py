"""Finds event times in columns of JSON documents with a JSON pointer (RFC 6901)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.decoding.datetime_text import instants_or_null, microseconds
from flip27_stream.decoding.frames import without_frames
from flip27_stream.decoding.json_batches import one_a_line, parsed, plain_objects
from flip27_stream.decoding.json_documents import DocumentError, Number, parse_document
from flip27_stream.event_time.units import MILLISECONDS, milliseconds_of, to_milliseconds

_LARGEST: Final = 2**63 - 1
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_MILLISECONDS: Final = re.compile(r"-0|[0-9]{1,19}")


@dataclass(frozen=True)
class JsonPointer:
    """Finds event times in JSON documents.

    An event time is an integer >= 0 of 64 bits, or a text that decodes as a ``timestamp`` column, rounded down to ms;
    see :func:`~flip27_stream.decoding.datetime_text.microseconds`. A document has no event time if the value at the
    pointer is of another form or before 1970, or if the document cannot be parsed.

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

        A document may begin with the frame of a schema registry (a zero byte and a schema id), which is skipped.

        Arrow parses all plain documents at once. Python parses the other documents one by one, or all documents if
        Arrow fails, as it does on a mix of integers and strings. Both give the same result.
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
        since_epoch = microseconds(value, zoned=True) if type(value) is str else None
        return None if since_epoch is None or since_epoch < 0 else milliseconds_of(since_epoch, "us")

    def _found_in(self, value: Any) -> Any:
        """Returns the value at the pointer; ``None`` if no value is there.

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
        """Returns the event time (ms) of a document that is too deep for Python; ``None`` without an event time."""
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
            return to_milliseconds(instants_or_null(found).view(pa.int64()), "us")
        return to_milliseconds(found, self.unit)

    def _schema(self, kind: pa.DataType) -> pa.Schema:
        for token in reversed(self.tokens[1:]):
            kind = pa.struct([(token, kind)])
        return pa.schema([(self.tokens[0], kind)])
