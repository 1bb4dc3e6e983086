"""The layout of a data file: partition values, deletion vector and column names, which are not in the file."""

from __future__ import annotations

from typing import NamedTuple

from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping
from flip27_stream.connectors.files.layout.deletion_vector import DeletionVector

Partition = tuple[tuple[str, str | None], ...]
"""The values of partition columns as text, by name; ``None`` for null."""


class FileLayout(NamedTuple):
    """The properties of a data file that are not in the file and with which its rows are read.

    Attributes:
        partition: The values of columns that are not in the file, as text, by the names that data files have for
            columns; ``None`` for null.
        deletion: The deletion vector; ``None`` if no rows are deleted.
        columns: The names that the file has for the columns; ``None`` if it has the table's names.
    """

    partition: Partition = ()
    deletion: DeletionVector | None = None
    columns: ColumnMapping | None = None

    @property
    def values(self) -> Partition:
        """The values of partition columns by the table's names, without columns that the query does not read."""
        if self.columns is None:
            return self.partition
        named = ((self.columns.logical(name), text) for name, text in self.partition)
        return tuple((name, text) for name, text in named if name is not None)


PLAIN = FileLayout()
"""The layout of a file without partition values, deletion vector and column mapping."""


def version_name(path: str, deletion: DeletionVector | None) -> str:
    """Returns a name for a data file that differs between its deletion vectors."""
    return path if deletion is None else f"{path}~{deletion.mark}"
