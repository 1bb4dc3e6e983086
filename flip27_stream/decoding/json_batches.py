"""Parses many JSON documents at once with Arrow, which is fast but does not accept all that Spark accepts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from flip27_stream.arrow_columns import binaries, ints

# Texts that Arrow's parser reads differently from other parsers: it takes the first two for numbers, and ends at the
# third. The single byte of each pair is searched for first, because that is much faster.
_ODD_SIGNS = ((b"I", b"Inf"), (b"N", b"-NaN"), (b"\x00", b"\x00"))
_ODD = r"\x00|[\s:,\[+-]Inf[\s,\]}]|-NaN"


def plain_objects(documents: pa.BinaryArray) -> pa.BooleanArray:
    """Returns for each document whether Arrow reads it as Spark does: it looks like an object and has no odd signs.

    The result for a null is false.
    """
    plain = pc.and_(pc.starts_with(documents, "{"), pc.ends_with(documents, "}"))
    if plain.null_count:
        plain = plain.fill_null(False)
    if _may_be_odd(bytes(memoryview(documents.buffers()[2] or b""))):
        plain = pc.and_not(plain, pc.match_substring_regex(documents, _ODD).fill_null(False))
    return plain


def has_odd_signs(documents: bytes) -> bool:
    """Returns whether ``documents``, one in each line, have text that Arrow reads differently from Spark."""
    return _may_be_odd(documents) and pc.match_substring_regex(pa.scalar(documents), _ODD).as_py()


def _may_be_odd(content: bytes) -> bool:
    return any(first in content and sign in content for first, sign in _ODD_SIGNS)


def one_a_line(documents: pa.BinaryArray) -> pa.Buffer:
    """Returns all ``documents``, with a line break between any two."""
    all_documents = pa.ListArray.from_arrays(ints(np.array([0, len(documents)], np.int32)), documents)
    return pc.binary_join(all_documents, binaries([b"\n"])[0])[0].as_buffer()


def parsed(text: pa.Buffer, count: int, fields: pa.Schema) -> pa.Table | None:
    """Returns the fields of ``count`` documents, or ``None`` if some of them have more than one object.

    Each document is in a line, and begins with ``{`` and ends with ``}``. No JSON value can extend over the line break
    in ``}{``, so each document has at least one object. If there are as many objects as documents, each has exactly
    one.

    Raises:
        pa.ArrowInvalid: Arrow cannot parse the documents.
    """
    table = pj.read_json(
        pa.BufferReader(text),
        read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
        parse_options=pj.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore"),
    )
    return table if table.num_rows == count else None


def check_utf8(text: pa.Buffer) -> None:
    """Checks that all bytes are UTF-8, which Arrow's parser assumes.

    Raises:
        pa.ArrowInvalid: Some bytes are not UTF-8.
    """
    bounds = pa.py_buffer(np.array([0, text.size], np.int64))
    pa.Array.from_buffers(pa.large_string(), 1, [None, bounds, text]).validate(full=True)
