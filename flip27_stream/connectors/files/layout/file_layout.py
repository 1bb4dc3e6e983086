"""What must be known of a data file, beside its bytes, to read its rows."""

from __future__ import annotations

from typing import NamedTuple

from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping
from flip27_stream.connectors.files.layout.deletion_vector import DeletionVector

Partition = tuple[tuple[str, str | None], ...]
"""Values of columns that are not in a file, as text; ``None`` for null."""


class FileLayout(NamedTuple):
    """What must be known of a data file, beside its bytes, to read its rows.

    Attributes:
        partition: values of columns that are not in the file, as text, by the names that data files have for columns;
            ``None`` for null.
        deletion: rows of the file that are deleted; ``None`` if there are none.
        columns: names that the file has for the columns; ``None`` where it has the table's.
    """

    partition: Partition = ()
    deletion: DeletionVector | None = None
    columns: ColumnMapping | None = None

    @property
    def values(self) -> Partition:
        """Values of partition columns by the table's names; columns that the query does not read are left out."""
        if self.columns is None:
            return self.partition
        named = ((self.columns.logical(name), text) for name, text in self.partition)
        return tuple((name, text) for name, text in named if name is not None)


PLAIN = FileLayout()
"""The layout of a file that says all by itself."""


def version_name(path: str, deletion: DeletionVector | None) -> str:
    """A name for a data file with the rows that are deleted in it: with others deleted it is another version."""
    return path if deletion is None else f"{path}~{deletion.mark}"
