"""Makes Arrow binary columns from pieces of a buffer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.connectors.kafka.records.varints import Bytes, Longs


def gather(buffer: Bytes, at: Longs, sizes: Longs) -> pa.BinaryArray:
    """Returns the pieces of ``buffer`` as one binary column.

    Arrow arrays have no gaps between values. So the values and the gaps between them form one array over the buffer,
    and Arrow takes every second element, with a single copy.

    Args:
        buffer: the bytes.
        at: the positions of the pieces, ascending; pieces do not overlap.
        sizes: the sizes of the pieces in bytes; a negative size is a null.
    """
    rows = len(at)
    if not rows:
        return pa.array([], pa.binary())
    null = sizes < 0
    if null.all():
        return pa.nulls(rows, pa.binary())
    bounds = np.empty((rows, 2), np.int32)
    bounds[:, 0] = at
    np.add(at, np.maximum(sizes, 0), out=bounds[:, 1], casting="same_kind")
    with_gaps = pa.Array.from_buffers(
        pa.binary(), 2 * rows - 1, [None, pa.py_buffer(bounds), pa.py_buffer(buffer)]
    )
    found = pc.take(with_gaps, pa.array(np.arange(0, 2 * rows, 2)), boundscheck=False)
    if not null.any():
        return found
    valid = pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), rows, [valid, *found.buffers()[1:]])
