"""Reads rows of Parquet files, and checks that there are as many as the footer says.

Arrow skips a page whose header names a kind that it does not know. If one bit of a header is wrong, it returns fewer
rows, without an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq


def row_batches(
    parquet: pq.ParquetFile, groups: Sequence[int], most_rows: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of some row groups, in batches of at most ``most_rows`` rows.

    Row groups are read one after the other, or together if one batch has them all. So the values after a missing page
    come into wrong rows of these row groups only. The elements of lists and maps are not counted.

    Args:
        parquet: The file.
        groups: The numbers of the row groups, ascending.
        most_rows: The greatest number of rows of a batch.
        columns: The names of the columns; ``None`` for all.

    Raises:
        pa.ArrowInvalid: The data do not decode, or have not as many rows as the footer says.
    """
    sizes = {group: parquet.metadata.row_group(group).num_rows for group in groups}
    for run in _runs(sizes, most_rows):
        expected, found = sum(sizes[group] for group in run), 0
        # Batches of equal length, because a short one costs as much as a long one.
        rows = max(1, math.ceil(expected / max(1, math.ceil(expected / most_rows))))
        for batch in parquet.iter_batches(rows, row_groups=run, columns=columns, use_threads=False):
            found += batch.num_rows
            yield batch
        check_row_count(found, expected)


def check_row_count(found: int, expected: int) -> None:
    """Checks that as many rows were read as the footer says.

    Raises:
        pa.ArrowInvalid: The numbers differ.
    """
    if found != expected:
        raise pa.ArrowInvalid(f"a part of it has {found} rows, and its footer says {expected}")


def _runs(sizes: dict[int, int], most_rows: int) -> Iterator[list[int]]:
    """Yields the numbers of the row groups that are read together: one, or several with at most ``most_rows`` rows.

    Args:
        sizes: The number of rows of each row group, by its number.
        most_rows: The greatest number of rows that several row groups may have together.
    """
    run: list[int] = []
    rows = 0
    for group, size in sizes.items():
        if run and rows + size > most_rows:
            yield run
            run, rows = [], 0
        run.append(group)
        rows += size
    if run:
        yield run
