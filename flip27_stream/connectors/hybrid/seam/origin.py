"""The split and position that a row of the history has in the next source."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from flip27_stream.errors import OptionError


@dataclass(frozen=True)
class Origin:
    """The columns of the previous source that have the split and position of a row in the next source.

    Attributes:
        split: The id of a split of the next source, with names of columns in braces.
        position: The column that has the position in that split.
    """

    split: str
    position: str

    @property
    def columns(self) -> list[str]:
        """The names of the columns in the split's id."""
        return [name for _, name, _, _ in string.Formatter().parse(self.split) if name]

    def check(self, schema: pa.Schema, what: str) -> None:
        """Checks that the hybrid source has these columns.

        Args:
            schema: The schema of the hybrid source.
            what: The feature that needs the columns, for the error.

        Raises:
            OptionError: A column is missing, the id of the split names no column, or the positions are not integers.
        """
        if not self.columns:
            raise OptionError(
                f"{what}'s split '{self.split}' names no column in braces; for Kafka it is {{topic}}-{{partition}}."
            )
        missing = sorted({*self.columns, self.position} - set(schema.names))
        if missing:
            raise OptionError(
                f"{what} needs columns that the hybrid source does not have: {', '.join(missing)}. It has "
                f"{', '.join(schema.names)}."
            )
        if not pa.types.is_integer(of := schema.field(self.position).type):
            raise OptionError(
                f"{what} needs positions that are integers, and column '{self.position}' has type {of}. Name another "
                "column, or let the converter of the first source make integers. The sequence numbers of Kinesis are "
                "greater than any integer column holds."
            )

    def grouped(self, rows: pa.RecordBatch, aggregate: str) -> list[tuple[str, pa.Scalar]]:
        """Returns the id of each split with an aggregate of its positions. Rows without a position are left out.

        Args:
            rows: Rows of the hybrid source.
            aggregate: An aggregate function of Arrow, such as ``max``.
        """
        table = pa.table({"position": rows.column(self.position).cast(pa.int64())})
        for name in self.columns:
            table = table.append_column(f"split.{name}", rows.column(name))
        table = table.filter(table.column("position").is_valid())
        groups = table.group_by(table.column_names[1:]).aggregate([("position", aggregate)])
        keys = groups.select([f"split.{name}" for name in self.columns]).to_pylist()
        ids = (self.split.format(**{n: key[f"split.{n}"] for n in self.columns}) for key in keys)
        return list(zip(ids, groups.column(f"position_{aggregate}"), strict=True))


class NamesOrigin:
    """A rule for the switch that looks up the :class:`Origin` of rows.

    Attributes:
        what: The name of the rule, for errors.
        is_corrected_at_the_switch: Whether a corrected template holds for all rows of a checkpoint. If not, the
            checkpoint has ids that the former template gave.
        split: The id of a split of the next source, with names of columns in braces.
        position: The column that has the position in that split.
    """

    what: ClassVar[str]
    is_corrected_at_the_switch: ClassVar[bool]
    split: str
    position: str

    @property
    def origin(self) -> Origin:
        """The columns that have the split and position of a row in the next source."""
        return Origin(self.split, self.position)

    def check(self, schema: pa.Schema) -> None:
        """Checks that the hybrid source has these columns.

        Raises:
            OptionError: A column is missing, or the positions are not integers.
        """
        self.origin.check(schema, self.what)
