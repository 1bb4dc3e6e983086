"""Whether a query can go on with its columns when those of a Delta table change."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.types as pt

from flip27_stream.connectors.files.formats.schemas import can_become, find_column, is_list
from flip27_stream.errors import SchemaChangedError

log = logging.getLogger(__name__)


class SchemaChange(Enum):
    """What becomes of a query when the table gets columns that the query cannot read with its own."""

    FAIL = "fail"
    IGNORE = "ignore"


@dataclass(frozen=True)
class ReadColumns:
    """The columns that a query reads, beside those that the table has.

    They go together as in Spark (``SchemaUtils.isReadCompatible``): the query has every column of the table, and each
    value is one of the query's type. A column that the table lacks is null. Where the user named the columns, the
    table's other columns do not matter.

    Attributes:
        schema: the columns.
        inferred: whether they were all columns of the table when the query was defined, and not named by the user.
        change: what to do when the table's columns do not fit any more.
    """

    schema: pa.Schema
    inferred: bool = False
    change: SchemaChange = SchemaChange.FAIL

    def check(self, table: pa.Schema, what: str) -> None:
        """Compare with the columns of ``table``; ``what`` has them, for the error.

        Raises:
            SchemaChangedError: they do not fit, and ``change`` is to fail.
        """
        differences = "; ".join(self._differences(table))
        if not differences:
            return
        if self.change is SchemaChange.IGNORE:
            log.warning("%s has other columns than the query, which goes on: %s", what, differences)
            return
        again = (
            "Define the query again, with load(), and start it: then it has the columns of the table"
            if self.inferred
            else "Start the query with another .schema(...)"
        )
        raise SchemaChangedError(
            f"{what} has other columns than the query: {differences}. Nothing of it was read. {again}. To go on with "
            "the columns that the query has, set option files.schema-change to ignore."
        )

    def _differences(self, table: pa.Schema) -> Iterator[str]:
        for field in table:
            at = find_column(self.schema.names, field.name)
            if at is None:
                if self.inferred:
                    yield f"column '{field.name}' ({field.type}) is not among the query's"
                continue
            wanted = self.schema.field(at).type
            if not can_become(field.type, wanted):
                yield f"column '{field.name}' is {field.type}, which the query reads as {wanted}"
            elif self.inferred:
                for name in _unread(field.type, wanted, field.name):
                    yield f"field '{name}' is not among the query's"


def _unread(given: pa.DataType, wanted: pa.DataType, path: str) -> Iterator[str]:
    """Fields of structs in ``given`` that ``wanted`` has not, with their paths."""
    if pt.is_struct(given) and pt.is_struct(wanted):
        names = [field.name for field in wanted]
        for field in given:
            at = find_column(names, field.name)
            inside = f"{path}.{field.name}"
            if at is None:
                yield inside
            else:
                yield from _unread(field.type, wanted.field(at).type, inside)
    elif is_list(given) and is_list(wanted):
        yield from _unread(given.value_type, wanted.value_type, f"{path}.element")
    elif pt.is_map(given) and pt.is_map(wanted):
        yield from _unread(given.key_type, wanted.key_type, f"{path}.key")
        yield from _unread(given.item_type, wanted.item_type, f"{path}.value")
