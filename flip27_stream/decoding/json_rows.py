"""Decodes JSON documents into columns one by one. It defines which documents are malformed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.decoding.json_converters import TypeMismatch, ValueConverter, object_converter
from flip27_stream.decoding.json_documents import DocumentError, parse_document
from flip27_stream.decoding.time_forms import TimeForm

_TOO_DEEP: Final = ("it is nested too deeply",)


@dataclass(frozen=True)
class DecodedDocuments:
    """The columns of decoded documents, with a row for each document.

    Attributes:
        columns: The columns, in the order of the fields.
        bad: Which documents are bad. Their fields are null, except correct ones.
        too_deep: The rows of documents that are nested too deeply for Python's parser. They are also bad.
    """

    columns: Sequence[pa.Array]
    bad: pa.BooleanArray
    too_deep: Sequence[int] = ()

    @property
    def all_right(self) -> bool:
        """Whether no document is bad."""
        return not pc.any(self.bad).as_py()


@dataclass(frozen=True)
class JsonRows:
    """Decoder of single documents. A field that does not have its column's type is null and makes its document bad.

    Attributes:
        fields: The columns.
        time_form: The form of times; ``None`` for the forms that Spark casts from.
        strict_utf8: Whether a document that is not UTF-8 is bad.
    """

    fields: pa.Schema
    time_form: TimeForm | None = None
    strict_utf8: bool = False

    def decode(self, documents: pa.BinaryArray) -> DecodedDocuments:
        """Returns the columns of ``documents``. A null or blank document has nulls and is not bad."""
        rows, bad, too_deep = [], [], []
        for number, document in enumerate(documents.to_pylist()):
            row, wrong = self._row(document)
            rows.append(row)
            bad.append(bool(wrong))
            if wrong is _TOO_DEEP:
                too_deep.append(number)
        columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in self.fields]
        return DecodedDocuments(columns, pa.array(bad, pa.bool_()), too_deep)

    def explain(self, document: bytes, *, with_values: bool) -> str:
        """Returns what is wrong with ``document``, or an empty text if it is correct.

        Args:
            document: The document.
            with_values: Whether to include the wrong values.
        """
        _, wrong = self._row(document)
        return "; ".join(
            one.described(with_value=with_values) if isinstance(one, TypeMismatch) else one for one in wrong
        )

    def first_object(self, documents: pa.BinaryArray) -> Mapping[str, Any]:
        """Returns the fields of the first document, or an empty mapping if it is not an object."""
        try:
            found = parse_document(documents[0].as_py()) if len(documents) else None
        except (DocumentError, RecursionError):
            return {}
        return dict(found) if type(found) is tuple else {}

    def _row(self, document: bytes | None) -> tuple[Mapping[str, Any], Sequence[TypeMismatch | str]]:
        """Returns the fields of a document, and what is wrong with it."""
        if document is None or not document.strip(b" \t\r\n"):
            return {}, ()
        try:
            value = parse_document(document, strict_utf8=self.strict_utf8)
        except DocumentError as error:
            return {}, (str(error),)
        except RecursionError:
            return {}, _TOO_DEEP
        if type(value) is not tuple:
            return {}, ("it is not an object",)
        wrong: list[TypeMismatch] = []
        return self._convert(value, wrong), wrong

    @cached_property
    def _convert(self) -> ValueConverter:
        return object_converter({field.name: field.type for field in self.fields}, self.time_form)

    def __getstate__(self) -> dict[str, Any]:
        return {"fields": self.fields, "time_form": self.time_form, "strict_utf8": self.strict_utf8}
