"""Which split of the next source a row of the history came from, and where it stood there."""

from __future__ import annotations

import string
from dataclasses import dataclass

import pyarrow as pa

from flip27_stream.errors import OptionError


@dataclass(frozen=True)
class Origin:
    """Columns of the history that tell where its rows stand in the next source.

    Attributes:
        split: the id of the next source's split, with columns in braces.
        position: the column with the position in it.
    """

    split: str
    position: str

    @property
    def columns(self) -> list[str]:
        """The columns that make the split's id."""
        return [name for _, name, _, _ in string.Formatter().parse(self.split) if name]

    def check(self, schema: pa.Schema, what: str) -> None:
        """Raises OptionError if the chain has not these columns, which ``what`` needs."""
        if not self.columns:
            raise OptionError(
                f"{what}'s split '{self.split}' names no column; for Kafka it is {{topic}}-{{partition}}."
            )
        missing = sorted({*self.columns, self.position} - set(schema.names))
        if missing:
            raise OptionError(
                f"{what} is told apart by columns that the hybrid source has not: {', '.join(missing)}. It has "
                f"{', '.join(schema.names)}."
            )

    def grouped(self, rows: pa.RecordBatch, aggregate: str) -> list[tuple[str, pa.Scalar]]:
        """For each split its id, and ``aggregate`` of its positions, such as ``max``; rows without one are left out."""
        table = pa.table({"position": rows.column(self.position).cast(pa.int64())})
        for name in self.columns:
            table = table.append_column(f"split.{name}", rows.column(name))
        table = table.filter(table.column("position").is_valid())
        groups = table.group_by(table.column_names[1:]).aggregate([("position", aggregate)])
        keys = groups.select([f"split.{name}" for name in self.columns]).to_pylist()
        ids = (self.split.format(**{n: key[f"split.{n}"] for n in self.columns}) for key in keys)
        return list(zip(ids, groups.column(f"position_{aggregate}"), strict=True))
