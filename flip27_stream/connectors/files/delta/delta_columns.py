"""The comparison of the columns of a query with the columns of a Delta table, which can change."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa
import pyarrow.types as pt

from flip27_stream.connectors.files.delta.delta_commit import TableColumns
from flip27_stream.connectors.files.formats.schemas import can_become
from flip27_stream.connectors.files.layout.column_mapping import (
    ColumnMapping,
    MappedColumn,
    parts_of,
    physical_name,
    stored_schema,
)
from flip27_stream.connectors.files.layout.columns import find_column, find_columns, is_list
from flip27_stream.errors import SchemaChangedError

log = logging.getLogger(__name__)


class SchemaChange(Enum):
    """The action if the columns of the table no longer fit the columns of the query."""

    FAIL = "fail"
    IGNORE = "ignore"


@dataclass(frozen=True)
class ReadColumns:
    """The columns that a query reads, and their comparison with the columns of the table.

    They fit by Spark's rule (``SchemaUtils.isReadCompatible``): the query has every column of the table, and every
    value of the table can be a value of the query's type. A column that the table lacks is null. If the user named the
    columns, other columns of the table are ignored.

    Attributes:
        schema: The columns.
        inferred: Whether they were all columns of the table when the query was defined, and not named by the user.
        change: The action if the table's columns no longer fit.
    """

    schema: pa.Schema
    inferred: bool = False
    change: SchemaChange = SchemaChange.FAIL

    def mapping(self, now: TableColumns, before: ColumnMapping | None, what: str) -> ColumnMapping | None:
        """Returns the names that data files have for the columns of the query, at the beginning of a run.

        A column of the query that the table no longer has keeps the name that it had in files before.

        Args:
            now: The columns of the table.
            before: The result of this method when the checkpoint was written.
            what: The table, for the error.

        Raises:
            SchemaChangedError: The columns do not fit, and ``change`` is ``FAIL``.
        """
        if now.mapping is None:
            self._refuse([*self._differences(now.schema), *_removed(before)], what)
            return None
        own = now.mapping.only(self.schema.names)
        gone = {
            name: column
            for name, column in (before.columns if before is not None else {}).items()
            if name not in own.columns and find_column(self.schema.names, name) is not None
        }
        self._refuse([*self._differences(now.schema), *_moved(gone, now.schema)], what)
        return ColumnMapping(own.by_id, {**gone, **own.columns})

    def check_commit(
        self, table: TableColumns, mapping: ColumnMapping | None, what: str, *, is_later: bool
    ) -> None:
        """Compares the columns of the query with the columns that a commit sets.

        With column mapping, earlier names of columns and dropped columns are ignored, if they changed before the run
        began, because the query was defined after the change.

        Args:
            table: The columns that the commit sets.
            mapping: The names that data files have for the columns of the query.
            what: The commit, for the error.
            is_later: Whether the commit was made after the run began.

        Raises:
            SchemaChangedError: The columns do not fit, and ``change`` is ``FAIL``.
        """
        if mapping is None and table.mapping is None:
            self._refuse(self._differences(table.schema), what)
        elif is_later:
            names = _same_names(self.schema) if mapping is None else mapping.columns
            known = {name: one for name, one in names.items() if mapping or _is_of(one, table.schema)}
            self._refuse([*_moved(known, table.schema), *self._differences(table.schema)], what)
        elif mapping is None:
            self._refuse(_removed(table.mapping), what)
        else:
            in_files = stored_schema(table.schema)
            earlier = replace(mapping, by_id=False).renamed_schema(in_files)
            self._refuse(replace(self, inferred=False)._differences(earlier), what)

    def _refuse(self, found: Iterable[str], what: str) -> None:
        """Reports differences; does nothing without differences.

        Raises:
            SchemaChangedError: ``change`` is ``FAIL``. Otherwise the differences are logged.
        """
        differences = "; ".join(found)
        if not differences:
            return
        if self.change is SchemaChange.IGNORE:
            log.warning("%s has other columns than the query, which goes on: %s", what, differences)
            return
        again = (
            "Define the query again, with load(), to get the columns of the table, and start it"
            if self.inferred
            else "Start the query with another .schema(...)"
        )
        raise SchemaChangedError(
            f"{what} has other columns than the query: {differences}. Nothing of it was read. {again}. To go on with "
            "the columns of the query, set option files.schema-change to ignore."
        )

    def _differences(self, table: pa.Schema) -> Iterator[str]:
        for field, at in zip(table, find_columns(self.schema.names, table.names), strict=True):
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
    """Yields the paths of struct fields that ``given`` has and ``wanted`` lacks."""
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


def _same_names(schema: pa.Schema) -> Mapping[str, MappedColumn]:
    """Returns the columns of a table without column mapping."""
    return {name: MappedColumn(name) for name in schema.names}


def _is_of(column: MappedColumn, schema: pa.Schema) -> bool:
    """Returns whether a table has the column, by its name or by its physical name."""
    return any(column.physical in (one.name, physical_name(one)) for one in schema)


def _moved(columns: Mapping[str, MappedColumn], now: Iterable[pa.Field], path: str = "") -> Iterator[str]:
    """Yields a text for each column that was renamed or dropped."""
    stored = {physical_name(one): one for one in now}
    for name, column in columns.items():
        found = stored.get(column.physical)
        if found is None:
            yield f"column '{path}{name}' was dropped"
        elif found.name != name:
            yield f"column '{path}{name}' is named '{found.name}' now"
        else:
            yield from _moved(column.fields, parts_of(found.type), f"{path}{name}.")


def _removed(mapping: ColumnMapping | None) -> Iterator[str]:
    """Yields a text for each column that can no longer be found in files because the column mapping was removed."""
    if mapping is not None:
        for name, column in mapping.columns.items():
            if column.physical != name:
                yield f"column '{name}' is '{column.physical}' in files, and the table has no column mapping any more"
