"""Damages pages of Parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

_DATA_PAGE = b"\x15\x00"
"""The first field of a page header: the kind 0."""
_INDEX_PAGE = b"\x15\x02"


def hide_page(path: Path, group: int, column: str) -> None:
    """Changes one bit in the header of a column's first data page, so that Arrow leaves the page out.

    Args:
        path: The file.
        group: The number of the row group.
        column: The path of the column in the schema, such as ``add.path``.
    """
    row_group, data = pq.read_metadata(path).row_group(group), bytearray(path.read_bytes())
    chunks = (row_group.column(n) for n in range(row_group.num_columns))
    at = next(chunk.data_page_offset for chunk in chunks if chunk.path_in_schema == column)
    assert data[at : at + 2] == _DATA_PAGE
    data[at : at + 2] = _INDEX_PAGE
    path.write_bytes(data)
