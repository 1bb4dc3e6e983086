"""The frame that serializers of schema registries write: a zero byte and the id of a schema in 4 bytes (Confluent)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

FRAME: Final = 5
"""The size of a frame in bytes."""

NO_ID: Final = -1


def schema_ids(values: pa.BinaryArray) -> npt.NDArray[np.int64]:
    """Returns the schema id of each value; -1 for a null, and for a value that does not begin with a frame."""
    _, starts, content = values.buffers()
    if content is None or not len(values):
        return np.full(len(values), NO_ID)
    bounds = np.frombuffer(starts, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    data = np.frombuffer(content, np.uint8)
    framed = values.is_valid().to_numpy(zero_copy_only=False) & (np.diff(bounds) >= FRAME)
    begins = bounds[:-1][framed]
    digits = [data[begins + place].astype(np.int64) for place in range(FRAME)]
    ids = np.full(len(values), NO_ID)
    ids[framed] = np.where(
        digits[0] == 0, digits[1] << 24 | digits[2] << 16 | digits[3] << 8 | digits[4], NO_ID
    )
    return ids


def payloads(values: pa.BinaryArray) -> pa.BinaryArray:
    """Returns the values without their frames; every value must have a frame.

    Arrow's ``binary_slice`` is not used, because it fails on some arrays.
    """
    _, starts, content = values.buffers()
    bounds = np.frombuffer(starts, np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(content, np.uint8)[bounds[0] : bounds[-1]]
    bounds = bounds - bounds[0]
    kept = np.ones(len(data), np.bool_)
    kept[np.add.outer(bounds[:-1], np.arange(FRAME))] = False
    bounds = bounds - FRAME * np.arange(len(bounds), dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(data[kept])]
    )


def without_frames(values: pa.BinaryArray) -> pa.BinaryArray:
    """Returns the values without their frames; a value without a frame stays as it is."""
    framed = schema_ids(values) != NO_ID
    if not framed.any():
        return values
    mask = pa.array(framed)
    return pc.replace_with_mask(values, mask, payloads(values.filter(mask)))
