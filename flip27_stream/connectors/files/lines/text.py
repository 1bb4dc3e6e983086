"""Text files. Each line is a row with one column, as in Spark's own source."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.files.lines.line_blocks import starts_of_lines
from flip27_stream.connectors.files.lines.line_format import LineDecoder, LineFormat
from flip27_stream.errors import OptionError

_COLUMN = "value"
_NEWLINE, _RETURN = ord("\n"), ord("\r")


@dataclass(frozen=True)
class TextFormat(LineFormat):
    """The text format. The column is ``value``, a string, or binary if bytes need not be UTF-8.

    Lines end with LF or CR LF.
    """

    name = "text"

    def __post_init__(self) -> None:
        if self.columns is not None:
            TextDecoder(self.columns)

    def _schema(self, file: pa.NativeFile, path: str) -> pa.Schema:
        return pa.schema([pa.field(_COLUMN, pa.string())])

    def _decoder(self, file: pa.NativeFile, path: str, schema: pa.Schema) -> TextDecoder:
        return TextDecoder(schema)


class TextDecoder(LineDecoder):
    """Decodes lines of text into rows."""

    def __init__(self, schema: pa.Schema) -> None:
        wanted = [(field.name.lower(), field.type) for field in schema]
        if wanted not in ([], [(_COLUMN, pa.string())], [(_COLUMN, pa.binary())]):
            raise OptionError(
                f"A text file has one column, '{_COLUMN}', string or binary; the schema has "
                f"{', '.join(f'{field.name} {field.type}' for field in schema)}."
            )
        self._schema = schema

    def at_once(self, data: bytes) -> pa.RecordBatch:
        offsets, text = _without_line_ends(data)
        if not len(self._schema):
            return pa.RecordBatch.from_struct_array(pa.array([{}] * (len(offsets) - 1), pa.struct([])))
        kind = self._schema.field(0).type
        column = pa.Array.from_buffers(
            kind, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)]
        )
        if kind == pa.string():
            column.validate(full=True)
        return pa.RecordBatch.from_arrays([column], schema=self._schema)

    def one_by_one(self, lines: list[bytes]) -> tuple[pa.RecordBatch, dict[int, str]]:
        good, bad = [], {}
        for index, line in enumerate(lines):
            try:
                good.append(line.removesuffix(b"\r").decode())
            except UnicodeDecodeError as error:  # noqa: PERF203
                bad[index] = (
                    f'it is not UTF-8 ({error}). To read the bytes unchanged, use .schema("value binary").'
                )
        return pa.RecordBatch.from_arrays([pa.array(good, pa.string())], schema=self._schema), bad

    def line_starts(self, data: bytes, rows: int) -> Int64s | None:
        return starts_of_lines(data)


def _without_line_ends(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Returns the beginnings of the lines and the end of the last line, and the text of all lines without line ends."""
    text = np.frombuffer(data, np.uint8)
    breaks = text == _NEWLINE
    ends = np.flatnonzero(breaks)
    returns = ends[(ends > 0) & (text[ends - 1] == _RETURN)] - 1 if len(ends) else ends
    breaks[returns] = True
    lines = len(ends) + (not data.endswith(b"\n"))
    dropped = np.ones(len(ends), np.int32)
    dropped[np.searchsorted(ends, returns + 1)] = 2
    offsets = np.zeros(lines + 1, np.int32)
    offsets[1 : len(ends) + 1] = ends + 1 - np.cumsum(dropped)
    kept = text[~breaks]
    offsets[-1] = len(kept)
    return offsets, kept
