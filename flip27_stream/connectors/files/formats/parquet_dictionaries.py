"""The columns of text or bytes in a Parquet file that are read by means of their dictionaries.

Arrow decodes such a column value by value. It is faster to decode the indices and to look up all values of a batch at
once: half of the time with dictionaries of some thousand values, but several times as long with dictionaries that are
so large that the writer did without them in a part of the column.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_LARGEST_PAGE = 32 << 10
"""The greatest size of a dictionary in the file, in bytes. Writers do without a dictionary after 1 MB, uncompressed."""


def columns_with_small_dictionaries(
    parquet: pq.ParquetFile, columns: Sequence[str], groups: Sequence[int]
) -> list[str]:
    """Returns the columns of text or bytes that have a small dictionary in each of the row groups.

    Columns after a nested column are left out.

    Args:
        parquet: The file.
        columns: The names of the columns to choose from.
        groups: The numbers of the row groups.
    """
    schema, metadata = parquet.schema_arrow, parquet.metadata
    likely = {name: schema.get_field_index(name) for name in columns}
    texts = {name: at for name, at in likely.items() if at >= 0 and _is_text(schema.field(at).type)}
    if not texts:
        return []
    of_groups = [metadata.row_group(number) for number in groups]
    return [
        name for name, at in texts.items() if all(_is_small(group.column(at), name) for group in of_groups)
    ]


def expanded(batch: pa.RecordBatch, columns: Collection[str]) -> pa.RecordBatch:
    """Returns ``batch`` with values in place of the indices of these columns."""
    names = batch.schema.names
    arrays = zip(names, batch.columns, strict=True)
    return pa.RecordBatch.from_arrays(
        [array.dictionary_decode() if name in columns else array for name, array in arrays], names=names
    )


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.binary())


def _is_small(chunk: Any, name: str) -> bool:
    """Returns whether a chunk is that of the column ``name``, and has a small dictionary."""
    if chunk.path_in_schema != name or chunk.physical_type != "BYTE_ARRAY":
        return False
    start = chunk.dictionary_page_offset
    return start is not None and 0 < chunk.data_page_offset - start <= _LARGEST_PAGE
