"""Column mapping of Delta tables: the names or ids that data files have for the table's columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from flip27_stream.api import JsonValue
from flip27_stream.connectors.files.layout.columns import find_column, find_columns, is_list
from flip27_stream.errors import RecordFormatError

MODE: Final = "delta.columnMapping.mode"
_PHYSICAL: Final = b"delta.columnMapping.physicalName"
_ID: Final = b"delta.columnMapping.id"
_FIELD_ID: Final = b"PARQUET:field_id"
_NO_ID: Final = -1
_ELEMENT, _KEY, _VALUE = "element", "key", "value"


@dataclass(frozen=True)
class MappedColumn:
    """A column or a struct field, as it is in data files.

    Attributes:
        physical: The name in data files, in statistics and in partition values.
        field_id: The id in the schema of Parquet files.
        fields: The fields of a struct, by the table's names. The element of a list is named ``element``, those of a map
            ``key`` and ``value``. Empty if nothing in the column has a name.
    """

    physical: str
    field_id: int = _NO_ID
    fields: Mapping[str, MappedColumn] = field(default_factory=dict)


Fields = Mapping[str, MappedColumn]


@dataclass(frozen=True)
class ColumnMapping:
    """The columns of a table as they are in data files (Delta protocol, "Column Mapping").

    Attributes:
        by_id: Whether columns are found by id (mode ``id``), not by physical name (mode ``name``).
        columns: The columns, by the table's names.
    """

    by_id: bool
    columns: Fields

    @classmethod
    def of(cls, schema: pa.Schema, configuration: Mapping[str, str | None]) -> ColumnMapping | None:
        """Returns the mapping of a table, or ``None`` if the table has no column mapping.

        Args:
            schema: The table's columns, with the metadata of each column in the log.
            configuration: The table's properties.
        """
        mode = configuration.get(MODE) or "none"
        return None if mode == "none" else cls(mode == "id", _mapped(schema))

    def only(self, names: Iterable[str]) -> ColumnMapping:
        """Returns the mapping of these columns, whose names can be in any case."""
        own = list(self.columns)
        wanted = {own[at] for at in find_columns(own, names) if at is not None}
        return ColumnMapping(self.by_id, {n: c for n, c in self.columns.items() if n in wanted})

    def physical(self, column: str) -> str | None:
        """Returns the physical name of a column, in any case, or ``None`` if the table has no such column."""
        names = list(self.columns)
        at = find_column(names, column)
        return None if at is None else self.columns[names[at]].physical

    def logical(self, physical: str) -> str | None:
        """Returns the table's name of the column with that physical name; ``None`` without such a column."""
        return next((name for name, one in self.columns.items() if one.physical == physical), None)

    def stored(self, file: pa.Schema, what: str) -> Mapping[str, str]:
        """Returns the names that a file has for the table's columns, by the table's names.

        Args:
            file: The columns of the file.
            what: The file, for errors.

        Raises:
            RecordFormatError: Columns are found by id, and the file has no ids.
        """
        if self.by_id and len(file) and not any(_FIELD_ID in (one.metadata or {}) for one in file):
            raise RecordFormatError(
                f"The {what} has no column ids, but the table finds columns by id ({MODE} is id). Rewrite "
                "the file with a writer that stores column ids, such as Spark's."
            )
        names = _Names(self.by_id, self.columns, file)
        return {name: one.name for one in file if (name := names.of(one)) is not None}

    def renamed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns ``batch`` with the table's names of columns and fields, without columns that the table lacks."""
        names = _Names(self.by_id, self.columns, batch.schema)
        found = [(at, name) for at, one in enumerate(batch.schema) if (name := names.of(one)) is not None]
        arrays = [
            _viewed(batch.column(at), _renamed(batch.schema.field(at).type, self._fields(name), self.by_id))
            for at, name in found
        ]
        if not arrays:
            return batch.select([])
        return pa.RecordBatch.from_arrays(arrays, names=[name for _, name in found])

    def renamed_schema(self, file: pa.Schema) -> pa.Schema:
        """Returns the schema of the batches that :meth:`renamed` returns for a file."""
        names = _Names(self.by_id, self.columns, file)
        return pa.schema(
            pa.field(name, _renamed(one.type, self._fields(name), self.by_id))
            for one in file
            if (name := names.of(one)) is not None
        )

    def _fields(self, name: str) -> Fields:
        return self.columns[name].fields

    def to_json(self) -> JsonValue:
        """Returns the form that a checkpoint stores."""
        return {"by": "id" if self.by_id else "name", "columns": _fields_to_json(self.columns)}

    @classmethod
    def from_json(cls, data: object) -> ColumnMapping:
        """Returns the mapping that :meth:`to_json` wrote.

        Raises:
            ValueError: The data has another form.
        """
        match data:
            case {"by": "id" | "name" as by, "columns": dict(columns)}:
                return cls(by == "id", _fields_from_json(columns))
        raise ValueError(f"not a column mapping: {data!r}")


class _Names:
    """Finds the table's names of the fields in a data file.

    Physical names are found in any case, as Spark finds them: a table can have been made from files whose names differ
    only in upper and lower case (``CONVERT TO DELTA``).

    Args:
        by_id: Whether fields are found by id.
        fields: The fields, by the table's names.
        file: All fields of the file, or of a struct in it.
    """

    def __init__(self, by_id: bool, fields: Fields, file: Iterable[pa.Field]) -> None:
        self.by_id = by_id
        self.fields = fields
        self._names: dict[str, str] = {}
        own, stored = list(fields.items()), list(file)
        if by_id:
            places = _places_of_ids(stored, [column.field_id for _, column in own])
        else:
            places = find_columns([one.name for one in stored], [column.physical for _, column in own])
        for (name, _), at in zip(own, places, strict=True):
            if at is not None:
                self._names.setdefault(stored[at].name, name)

    def of(self, stored: pa.Field) -> str | None:
        """Returns the table's name, or ``None`` if the table no longer has the field."""
        return self._names.get(stored.name)


def _places_of_ids(stored: Iterable[pa.Field], wanted: Iterable[int]) -> list[int | None]:
    places: dict[int, int] = {}
    for at, one in enumerate(stored):
        places.setdefault(int((one.metadata or {}).get(_FIELD_ID, _NO_ID)), at)
    return [None if number == _NO_ID else places.get(number) for number in wanted]


def physical_name(one: pa.Field) -> str:
    """Returns the name that data files have for a column of a table's schema."""
    name: bytes | None = (one.metadata or {}).get(_PHYSICAL)
    return str(one.name) if name is None else name.decode()


def stored_schema(table: pa.Schema) -> pa.Schema:
    """Returns the columns of a table under the names that data files have for them."""
    return pa.schema(_stored_field(one) for one in table)


def _stored_field(one: pa.Field) -> pa.Field:
    return pa.field(physical_name(one), _stored_type(one.type))


def _stored_type(kind: pa.DataType) -> pa.DataType:
    if pt.is_struct(kind):
        return pa.struct([_stored_field(one) for one in kind])
    if is_list(kind):
        return pa.list_(_stored_type(kind.value_type))
    if pt.is_map(kind):
        return pa.map_(_stored_type(kind.key_type), _stored_type(kind.item_type))
    return kind


def parts_of(kind: pa.DataType) -> list[pa.Field]:
    """Returns the types within a type: the fields of a struct, the element of a list, the key and value of a map."""
    if pt.is_struct(kind):
        return list(kind)
    if is_list(kind):
        return [pa.field(_ELEMENT, kind.value_type)]
    if pt.is_map(kind):
        return [pa.field(_KEY, kind.key_type), pa.field(_VALUE, kind.item_type)]
    return []


def _mapped(fields: Iterable[pa.Field]) -> Fields:
    return {
        one.name: MappedColumn(
            physical_name(one), int((one.metadata or {}).get(_ID, _NO_ID)), _inside(one.type)
        )
        for one in fields
    }


def _inside(kind: pa.DataType) -> Fields:
    if pt.is_struct(kind):
        return _mapped(kind)
    inner = {part.name: _inside(part.type) for part in parts_of(kind)}
    return {name: MappedColumn(name, _NO_ID, fields) for name, fields in inner.items() if fields}


def _of_part(fields: Fields, part: str) -> Fields:
    return fields[part].fields if part in fields else {}


def _renamed(kind: pa.DataType, fields: Fields, by_id: bool) -> pa.DataType:
    """Returns a type of a data file with the table's names of fields.

    A field that the table lacks stays, under a name that no column can have, because :func:`_viewed` needs the same
    fields.
    """
    if not fields:
        return kind
    if pt.is_struct(kind):
        names = _Names(by_id, fields, kind)
        return pa.struct([_renamed_field(one, names) for one in kind])
    if is_list(kind):
        inner = _renamed(kind.value_type, _of_part(fields, _ELEMENT), by_id)
        return pa.list_(kind.value_field.with_type(inner))
    return pa.map_(
        _renamed(kind.key_type, _of_part(fields, _KEY), by_id),
        _renamed(kind.item_type, _of_part(fields, _VALUE), by_id),
    )


def _renamed_field(one: pa.Field, names: _Names) -> pa.Field:
    name = names.of(one)
    if name is None:
        return one.with_name(f"\0{one.name}")
    return pa.field(name, _renamed(one.type, names.fields[name].fields, names.by_id), one.nullable)


def _viewed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns ``array`` with the type ``kind``, which differs only in names of fields."""
    return array if array.type == kind else array.view(kind)


def _fields_to_json(fields: Fields) -> JsonValue:
    return {
        name: [one.physical, one.field_id, *([_fields_to_json(one.fields)] if one.fields else [])]
        for name, one in fields.items()
    }


def _fields_from_json(data: Mapping[object, object]) -> Fields:
    found = {}
    for name, stored in data.items():
        match stored:
            case [str(physical), int(number)]:
                found[str(name)] = MappedColumn(physical, number)
            case [str(physical), int(number), dict(inner)]:
                found[str(name)] = MappedColumn(physical, number, _fields_from_json(inner))
            case _:
                raise ValueError(f"not a mapped column: {stored!r}")
    return found
