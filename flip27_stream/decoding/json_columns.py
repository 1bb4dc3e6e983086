"""The decoder of JSON documents into columns. It decodes a whole batch with Arrow, or one by one if that fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flip27_stream.arrow_columns import flags
from flip27_stream.decoding.datetime_text import INSTANT, LOCAL, dates, instants, local_times
from flip27_stream.decoding.decimal_text import wide_decimal
from flip27_stream.decoding.json_batches import check_utf8, has_odd_signs, one_a_line, parsed, plain_objects
from flip27_stream.decoding.json_converters import utf_8
from flip27_stream.decoding.json_documents import Number
from flip27_stream.decoding.json_regular_lines import regular_columns
from flip27_stream.decoding.json_rows import DecodedDocuments, JsonRows
from flip27_stream.decoding.time_forms import TimeForm

_FEW, _MANY, _SAMPLES = 16, 500, 5
_ENOUGH = 1_000  # In fewer lines, Arrow's parser costs less than the comparison of regular lines.
_BLANK = " \t\r\n"
_OPENING, _CLOSING, _RETURN, _BREAK = b"{}\r\n"
# The parser needs a column to count rows. Names that Arrow sees have no raw NUL in them.
_NO_FIELDS = pa.schema([("\0", pa.string())])


class _Form(Enum):
    """The form of the instants in a column, as far as it is known."""

    ISO_8601 = "the form that Arrow's parser of JSON accepts"
    TEXT = "otherwise, as text"
    SECONDS = "as numbers"


class JsonColumns:
    """Decodes JSON objects into columns. Each column has the values of the field with its name. Picklable.

    Arrow parses documents that look like objects together. If it refuses, they are halved until few are left. These are
    decoded by :class:`JsonRows`, which decides what is malformed.

    Args:
        fields: The columns, of types that :func:`~flip27_stream.decoding.json_converters.can_decode` accepts.
        time_form: The form of times; ``None`` for the forms that Spark casts from.
        strict_utf8: Whether a document that is not UTF-8 is bad, as in Spark's source of JSON files. Otherwise invalid
            bytes become U+FFFD, as in ``from_json``.
    """

    def __init__(
        self, fields: pa.Schema, time_form: TimeForm | None = None, *, strict_utf8: bool = False
    ) -> None:
        self._fields, self._time_form = fields, time_form
        self._rows = JsonRows(fields, time_form, strict_utf8)
        self._arrow_can = all(_arrow_can(f.type, time_form is None) or _is_time(f.type) for f in fields)
        form = _Form.ISO_8601 if time_form is None else _Form.TEXT
        self._forms = {f.name: form for f in fields if f.type == INSTANT}
        self._parsed = self._to_parse()
        self._are_regular = True

    def __reduce__(self) -> tuple[object, ...]:
        return _json_columns, (self._fields, self._time_form, self._rows.strict_utf8)

    def decode(self, documents: pa.BinaryArray, *, some_are_bad: bool = False) -> DecodedDocuments:
        """Returns the columns of ``documents``, with a row for each. A null or blank document has nulls and is not bad.

        Args:
            documents: The documents.
            some_are_bad: Whether the caller knows that some are bad, so that parsing all at once would fail.
        """
        if not self._arrow_can:
            return self._rows.decode(documents)
        plain = plain_objects(documents)
        if pc.all(plain).as_py():
            return self._decoded(documents, some_are_bad)
        trimmed = pc.ascii_trim(documents.fill_null(b"").view(pa.string()), _BLANK).view(pa.binary())
        blank = pc.equal(pc.binary_length(trimmed), 0)
        odd = pc.invert(pc.or_(plain_objects(trimmed), blank))
        empty = pa.scalar(b"{}", pa.binary())
        decoded = self._decoded(pc.if_else(pc.or_(odd, blank), empty, trimmed), some_are_bad)
        rows = np.flatnonzero(odd.to_numpy(zero_copy_only=False))
        if not len(rows):
            return decoded
        return _replaced(decoded, rows, self._one_by_one(documents.take(pa.array(rows))))

    def decode_lines(self, lines: bytes, starts: npt.NDArray[np.int64]) -> Sequence[pa.Array] | None:
        """Returns the columns of the lines that begin at ``starts``, or ``None`` if :meth:`decode` must decode them."""
        if not self._arrow_can or not len(starts):
            return None
        ends = _last_signs(lines, starts)
        if not _are_objects(lines, starts, ends):
            return None
        if self._are_regular and len(starts) >= _ENOUGH:
            columns = self._of_regular(lines, starts, ends)
            if columns is not None:
                return columns
            self._are_regular = False
        if has_odd_signs(lines):
            return None
        text = pa.py_buffer(lines)
        columns = self._at_once(text, len(starts))
        if columns is None and self._look_at_times(pa.array([lines.split(b"\n", 1)[0]])):
            columns = self._at_once(text, len(starts))
        return columns

    def explain(self, document: bytes, *, with_values: bool = False) -> str:
        """Returns what is wrong with a bad document, with its values if ``with_values`` is set."""
        return self._rows.explain(document, with_values=with_values)

    def _decoded(self, objects: pa.BinaryArray, some_are_bad: bool = False) -> DecodedDocuments:
        columns = None if some_are_bad else self._joined(objects)
        if columns is None and self._look_at_times(objects):
            columns = self._joined(objects)
        if columns is not None:
            return _all_right(columns, len(objects))
        if len(objects) <= _FEW or (len(objects) > _MANY and self._arrow_refuses_all(objects)):
            return self._one_by_one(objects)
        half = len(objects) // 2
        return _concatenated([self._decoded(objects.slice(0, half)), self._decoded(objects.slice(half))])

    def _one_by_one(self, documents: pa.BinaryArray) -> DecodedDocuments:
        """Decodes documents with :class:`JsonRows`, or with Arrow if they are nested too deeply for it."""
        decoded = self._rows.decode(documents)
        for row in decoded.too_deep:
            one = documents.slice(row, 1)
            columns = self._joined(one) if pc.all(plain_objects(one)).as_py() else None
            if columns is not None:
                decoded = _replaced(decoded, np.array([row]), _all_right(columns, 1))
        return decoded

    def _arrow_refuses_all(self, objects: pa.BinaryArray) -> bool:
        """Returns whether Arrow probably refuses every document, so that halving would not help."""
        samples = np.linspace(0, len(objects) - 1, _SAMPLES, dtype=np.int64).tolist()
        return all(self._joined(objects.slice(i, 1)) is None for i in samples)

    def _joined(self, objects: pa.BinaryArray) -> Sequence[pa.Array] | None:
        """Returns the columns of ``objects``, or ``None`` if Arrow cannot decode them."""
        if not len(objects):
            return [pa.array([], field.type) for field in self._fields]
        return self._at_once(one_a_line(objects), len(objects))

    def _of_regular(
        self, lines: bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> Sequence[pa.Array] | None:
        """Returns the columns of lines that differ only in their values, or ``None`` if there are other lines."""
        try:
            columns = regular_columns(lines, starts, ends, self._parsed)
            if columns is None:
                return None
            return [self._converted(columns[i], field) for i, field in enumerate(self._fields)]
        except pa.ArrowInvalid:
            return None

    def _at_once(self, text: pa.Buffer, count: int) -> Sequence[pa.Array] | None:
        try:
            check_utf8(text)
            table = parsed(text, count, self._parsed)
            if table is None:
                return None
            return [
                self._converted(table.column(i).combine_chunks(), field)
                for i, field in enumerate(self._fields)
            ]
        except pa.ArrowInvalid:
            return None

    def _to_parse(self) -> pa.Schema:
        """Returns the schema that Arrow's parser uses.

        Times are parsed as text or numbers, and cast later: casts are stricter than the parser about precision, days
        and zones.
        """
        if not len(self._fields):
            return _NO_FIELDS
        kinds = {_Form.ISO_8601: INSTANT, _Form.TEXT: pa.string(), _Form.SECONDS: pa.int64()}
        return pa.schema(
            (f.name, kinds[self._forms[f.name]] if f.name in self._forms else _parsed_type(f.type))
            for f in self._fields
        )

    def _converted(self, column: pa.Array, field: pa.Field) -> pa.Array:
        """Converts a column that Arrow parsed to the type of ``field``."""
        if column.type == field.type:
            return column
        if self._forms.get(field.name) is _Form.SECONDS:
            return pc.multiply_checked(column, 1_000_000).view(INSTANT)
        if not pt.is_string(column.type):
            return column.cast(field.type)
        if pt.is_date32(field.type):
            return dates(column)
        if self._time_form is not None:
            return self._time_form.times(column, field.type)
        return instants(column) if field.type == INSTANT else local_times(column)

    def _look_at_times(self, objects: pa.BinaryArray) -> bool:
        """Updates the forms of times from the first object, and returns whether they have changed."""
        first = self._rows.first_object(objects) if self._forms else {}
        forms = {name: self._form(name, first) for name in self._forms}
        if forms == self._forms:
            return False
        self._forms = forms
        self._parsed = self._to_parse()
        return True

    def _form(self, name: str, first: Mapping[str, object]) -> _Form:
        value = first.get(name)
        if isinstance(value, Number):
            return _Form.SECONDS
        if not isinstance(value, str):
            return self._forms[name]
        text = pa.array([utf_8(value)])
        iso_8601 = self._time_form is None and any(_casts(text, kind) for kind in (INSTANT, LOCAL))
        return _Form.ISO_8601 if iso_8601 else _Form.TEXT


def _json_columns(fields: pa.Schema, time_form: TimeForm | None, strict_utf8: bool) -> JsonColumns:
    return JsonColumns(fields, time_form, strict_utf8=strict_utf8)


def _last_signs(lines: bytes, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the positions of the last sign of each line, before its line end."""
    data = np.frombuffer(lines, np.uint8)
    ends: npt.NDArray[np.int64] = np.append(starts[1:] - 1, len(data) - (data[-1] == _BREAK)) - 1
    ends -= data[ends] == _RETURN
    return ends


def _are_objects(lines: bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> bool:
    """Returns whether every line begins and ends like an object."""
    data = np.frombuffer(lines, np.uint8)
    return bool(np.all(data[starts] == _OPENING) and np.all(data[ends] == _CLOSING))


def _all_right(columns: Sequence[pa.Array], count: int) -> DecodedDocuments:
    return DecodedDocuments(columns, flags(np.zeros(count, np.bool_)))


def _concatenated(parts: Sequence[DecodedDocuments]) -> DecodedDocuments:
    """Returns the rows of ``parts``, one after the other."""
    columns = [pa.concat_arrays(pieces) for pieces in zip(*(part.columns for part in parts), strict=True)]
    return DecodedDocuments(columns, pa.concat_arrays([part.bad for part in parts]))


def _replaced(
    decoded: DecodedDocuments, rows: npt.NDArray[np.int64], instead: DecodedDocuments
) -> DecodedDocuments:
    """Returns ``decoded`` with the rows numbered ``rows`` replaced by those of ``instead``."""
    both = _concatenated([decoded, instead])
    order = np.arange(len(decoded.bad))
    order[rows] = len(order) + np.arange(len(rows))
    indices = pa.array(order)
    return DecodedDocuments([column.take(indices) for column in both.columns], both.bad.take(indices))


def _casts(text: pa.StringArray, kind: pa.DataType) -> bool:
    try:
        text.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _is_time(kind: pa.DataType) -> bool:
    return bool(kind in (INSTANT, LOCAL))


def _arrow_can(kind: pa.DataType, times: bool) -> bool:
    """Returns whether Arrow's parser supports a type at any depth; ``times`` says whether it supports its times."""
    if pt.is_binary(kind) or pt.is_map(kind) or (_is_time(kind) and not times):
        return False
    return all(_arrow_can(kind.field(i).type, times) for i in range(kind.num_fields))


def _parsed_type(kind: pa.DataType) -> pa.DataType:
    if pt.is_date32(kind) or kind == LOCAL:
        return pa.string()
    if pt.is_decimal(kind):
        return wide_decimal(kind)
    if pt.is_list(kind):
        return pa.list_(_parsed_type(kind.value_type))
    if pt.is_struct(kind):
        return pa.struct(
            [(f.name, _parsed_type(f.type)) for f in (kind.field(i) for i in range(kind.num_fields))]
        )
    return kind
