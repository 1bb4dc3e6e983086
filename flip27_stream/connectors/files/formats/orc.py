"""ORC files. A position is a row number; a unit is a stripe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import orc

from flip27_stream.arrow_columns import longs
from flip27_stream.connectors.files.formats.event_times import NO_TIMES, TimeRange, check_time_column
from flip27_stream.connectors.files.formats.file_format import (
    MAX_BATCH_ROWS,
    FileFormat,
    overlapping,
    units_of_rows,
)
from flip27_stream.connectors.files.formats.file_units import FileUnits
from flip27_stream.connectors.files.formats.orc_footer import (
    TIMESTAMP,
    OrcFooter,
    Stripe,
    read_orc_footer,
    writer_zone,
)
from flip27_stream.connectors.files.formats.orc_times import (
    OrcTimes,
    has_walls,
    is_local,
    with_local_times,
)
from flip27_stream.connectors.files.formats.schemas import Projection, spark_schema, without_columns
from flip27_stream.connectors.files.formats.spark_types import refuse_in_orc
from flip27_stream.connectors.files.layout.columns import find_column
from flip27_stream.decoding.datetime_text import INSTANT, LOCAL
from flip27_stream.errors import ConnectorError, RecordFormatError
from flip27_stream.reader import Records

_REMEDIES: Final = {
    "Time zone file": "They are local times of a writer whose time zone is unknown on this machine. Its name is that "
    "of the writing JVM (user.timezone). Give a file of this time zone this name on all machines, for example with "
    "`ln -s Etc/GMT-8 /usr/share/zoneinfo/GMT+08:00`.",
    "out of range for nanosecond": "Arrow counts nanoseconds there, from 1677-09-22 to 2262-04-11. Leave the column "
    "out of .schema(...), or write the files as Parquet.",
}
"""Advice for files that Arrow cannot read though they are not damaged; a key is a part of Arrow's message."""


class OrcFormat(FileFormat):
    """The ORC format. It reads only the stripes of a range and only the wanted columns.

    ORC's ``timestamp`` has the local time of the writer. With the writer's time zone, which the stripe names, it
    becomes an instant, as in Spark.
    """

    name = "orc"

    def _schema(self, file: pa.NativeFile, path: str) -> pa.Schema:
        in_file = orc.ORCFile(file).schema
        refuse_in_orc(in_file, f"orc file {path}")
        stored = pa.schema([with_local_times(f, INSTANT) for f in in_file])
        return spark_schema(stored, f"orc file {path}")

    def _units(self, file: pa.NativeFile, path: str, column: str | None) -> FileUnits:
        footer = read_orc_footer(file)
        rows = [stripe.rows for stripe in footer.stripes]
        times = [None] * len(rows) if column is None else _event_times(file, footer, column, path)
        return units_of_rows(file.size(), rows, [stripe.size for stripe in footer.stripes], times)

    def _read(
        self, file: pa.NativeFile, path: str, start: int, end: int, schema: pa.Schema
    ) -> Iterator[Records]:
        footer = read_orc_footer(file)
        borders = np.cumsum([0, *(stripe.rows for stripe in footer.stripes)])
        opened = orc.ORCFile(file)
        stored = pa.schema([with_local_times(f) for f in opened.schema])
        projection = Projection.of(stored, schema, f"orc file {path}")
        if len(schema) and not projection.columns:
            _refuse_without_names(stored.names, f"orc file {path}")
        projection.warn_of_missing()
        for stripe in overlapping(borders, start, end):
            listed = footer.stripes[stripe]
            if projection.columns:
                read = _stripe(opened, stripe, projection.columns, path)
                rows = _converted(read, file, footer, listed)
            else:
                rows = without_columns(listed.rows)  # Arrow would return no rows.
            row = int(borders[stripe])
            stop = min(end, int(borders[stripe + 1]))
            for first in range(max(start, row), stop, MAX_BATCH_ROWS):
                behind = min(first + MAX_BATCH_ROWS, stop)
                part = projection.apply(rows.slice(first - row, behind - first))
                yield Records(part, positions=longs(np.arange(first, behind)))


def _refuse_without_names(names: Sequence[str], what: str) -> None:
    """Checks that not all columns have Hive's names ``_col0``, ``_col1`` and so on.

    Raises:
        RecordFormatError: All columns have such names.
    """
    if names and all(name.startswith("_col") for name in names):
        raise RecordFormatError(
            f"The {what} has the columns {', '.join(names[:3])}{', …' if names[3:] else ''} and none of the query's: "
            "Hive wrote it without the table's names. Columns are not found by their place. Name them _col0, _col1 and "
            "so on in .schema(...), and rename them in the query."
        )


def _event_times(file: pa.NativeFile, footer: OrcFooter, column: str, path: str) -> list[TimeRange | None]:
    """Returns the range of each stripe, from its statistics or else by reading the column."""
    names = list(footer.columns)
    index = find_column(names, column)
    if index is None:
        return [NO_TIMES] * len(footer.stripes)
    field = orc.ORCFile(file).schema.field(names[index])
    check_time_column(field.type, column, f"orc file {path}")
    return [_time_range(file, footer, number, field, path) for number in range(len(footer.stripes))]


def _time_range(
    file: pa.NativeFile, footer: OrcFooter, number: int, field: pa.Field, path: str
) -> TimeRange | None:
    stripe = footer.stripes[number]
    column_id, kind = footer.columns[field.name]
    if column_id in stripe.times:
        values = stripe.times[column_id]
        if values is None:
            return NO_TIMES
        if kind != TIMESTAMP:
            return TimeRange.of(*values, LOCAL if is_local(field) else pa.int64())
        times = pa.RecordBatch.from_arrays([pa.array(values, pa.timestamp("ms"))], [field.name])
    else:
        times = _stripe(orc.ORCFile(file), number, [field.name], path).select([field.name])
    return TimeRange.of_column(_converted(times, file, footer, stripe).column(0))


def _stripe(opened: orc.ORCFile, number: int, columns: list[str], path: str) -> pa.RecordBatch:
    """Returns the columns of a stripe, and more columns if Arrow cannot select them.

    Raises:
        ConnectorError: Arrow cannot read the times.
        pa.ArrowException: The stripe is damaged.
    """
    try:
        return opened.read_stripe(number, columns=_selected(columns))
    except pa.ArrowException as error:
        remedy = next((remedy for text, remedy in _REMEDIES.items() if text in str(error)), None)
        if remedy is None:
            raise
        # The file is not damaged, so that it is not skipped if damaged files may be skipped.
        raise ConnectorError(
            f"Times of the orc file {path} cannot be read: {str(error).rstrip('.')}. {remedy}"
        ) from error


def _selected(columns: list[str]) -> list[str] | None:
    """Returns the columns to read; ``None`` for all if Arrow would confuse a name with that of a nested field."""
    return None if any("." in name for name in columns) else columns


def _converted(
    rows: pa.RecordBatch, file: pa.NativeFile, footer: OrcFooter, stripe: Stripe
) -> pa.RecordBatch:
    """Returns ``rows`` with dates and times as Spark has them."""
    has_zone = any(has_walls(field.type) for field in rows.schema)
    zone = writer_zone(file, footer, stripe) if has_zone else "UTC"
    return OrcTimes(zone, footer.julian).converted(rows)
