"""JSON documents into columns one by one: the last word on what a document means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.decoding.json_converters import Converter, Mismatch, object_converter
from flip27_stream.decoding.json_documents import DocumentError, parse_document
from flip27_stream.decoding.time_patterns import TimePattern

_TOO_DEEP: Final = ("it is nested too deeply",)


@dataclass(frozen=True)
class DecodedDocuments:
    """Columns made of documents, with a row for each.

    Attributes:
        columns: in the order of the fields.
        bad: which documents are wrong. Their fields are null, except those that are right.
        too_deep: rows of documents that are nested too deeply for Python's parser; they are bad, too.
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
    """Decodes single documents; a field that is not of its column's type is null and makes its document bad.

    Attributes:
        fields: the columns.
        pattern: the form of times; ``None`` for the forms that Spark casts from.
        strict_utf8: whether a document is bad that is not UTF-8.
    """

    fields: pa.Schema
    pattern: TimePattern | None = None
    strict_utf8: bool = False

    def decode(self, documents: pa.BinaryArray) -> DecodedDocuments:
        """Columns of ``documents``; one that is null or blank has nulls, and is not bad."""
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
        """What is wrong with ``document``; empty if nothing is.

        Args:
            document: that is to be explained.
            with_values: tell the values that are wrong.
        """
        _, wrong = self._row(document)
        return "; ".join(
            one.described(with_value=with_values) if isinstance(one, Mismatch) else one for one in wrong
        )

    def first_object(self, documents: pa.BinaryArray) -> Mapping[str, Any]:
        """The fields of the first document; empty if there is none, or if it is no object."""
        try:
            found = parse_document(documents[0].as_py()) if len(documents) else None
        except (DocumentError, RecursionError):
            return {}
        return dict(found) if type(found) is tuple else {}

    def _row(self, document: bytes | None) -> tuple[Mapping[str, Any], Sequence[Mismatch | str]]:
        """The fields of a document, and what is wrong with it."""
        if document is None or not document.strip(b" \t\r\n"):
            return {}, ()
        try:
            value = parse_document(document, strict_utf8=self.strict_utf8)
        except DocumentError as error:
            return {}, (str(error),)
        except RecursionError:
            return {}, _TOO_DEEP
        if type(value) is not tuple:
            return {}, ("it is no object",)
        wrong: list[Mismatch] = []
        return self._convert(value, wrong), wrong

    @cached_property
    def _convert(self) -> Converter:
        return object_converter({field.name: field.type for field in self.fields}, self.pattern)

    def __getstate__(self) -> dict[str, Any]:
        return {"fields": self.fields, "pattern": self.pattern, "strict_utf8": self.strict_utf8}
