"""The columns of text or bytes in Parquet files that are read by means of their dictionaries.

Arrow decodes such a column value by value. It is faster to decode the indices and to look up all values of a batch at
once: half of the time if a dictionary has some thousand values, but several times as long if it is so large that the
writer did without it in a part of the column.

The footer has the sizes of dictionaries, but a damaged footer ends the process if pyarrow looks at them. So the values
of files that were read before tell which columns are read in this way.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_SAMPLE_ROWS = 8_000
_LEAST_REPEATS = 4
_LARGEST_DICTIONARY = 16_000


class RepeatedTexts:
    """The columns of text or bytes whose values were often repeated in the file that was read last.

    It changes the speed of reading, and no values. Files of different tables with columns of the same names may replace
    what is known about each other.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()

    def among(self, names: Iterable[str], schema: pa.Schema) -> list[str]:
        """Returns those of the columns that are text or bytes in a file with this schema, and are often repeated."""
        known = {name: schema.get_field_index(name) for name in names if name in self._names}
        return [name for name, at in known.items() if at >= 0 and _is_text(schema.field(at).type)]

    def learn(self, batch: pa.RecordBatch) -> None:
        """Records which columns of a batch of a file have values that are often repeated.

        Args:
            batch: The batch as it was read, with indices in the columns that were read by means of a dictionary.
        """
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if pt.is_dictionary(array.type):
                if len(array.dictionary) > _LARGEST_DICTIONARY:
                    self._names.discard(name)
            elif (
                _is_text(array.type) and "." not in name
            ):  # A dot also stands between the names of nested columns.
                self._learn(name, array[:_SAMPLE_ROWS])

    def _learn(self, name: str, sample: pa.Array) -> None:
        if len(sample) == _SAMPLE_ROWS and pc.count_distinct(sample).as_py() * _LEAST_REPEATS <= len(sample):
            self._names.add(name)
        else:
            self._names.discard(name)


def expanded(batch: pa.RecordBatch, columns: Iterable[str]) -> pa.RecordBatch:
    """Returns ``batch`` with values in place of the indices of these columns."""
    names, arrays = batch.schema.names, list(batch.columns)
    for name in columns:
        at = names.index(name)
        arrays[at] = arrays[at].dictionary_decode()
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.binary())
