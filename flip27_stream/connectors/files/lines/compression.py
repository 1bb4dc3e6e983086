"""The codecs of compressed files of lines, which are chosen by the end of the file's name."""

from __future__ import annotations

import os.path

import pyarrow as pa

from flip27_stream.errors import RecordFormatError

_HEAD = 64 << 10
_PACKED_HEAD = 2 << 20  # A bzip2 block has 900 KB, and the first one must be complete.
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_UNREADABLE = (".snappy", ".lz4", ".lzo", ".deflate", ".xz", ".zip", ".br")


def codec_of(path: str) -> str | None:
    """Returns the codec that the name of a file stands for, or ``None`` for a file that is not compressed.

    Raises:
        RecordFormatError: The codec is not supported.
    """
    extension = os.path.splitext(path)[1].lower()
    if extension in _UNREADABLE:
        raise RecordFormatError(
            f"File {path} is compressed with a method that is not supported. Supported are {', '.join(_CODECS)}."
        )
    return _CODECS.get(extension)


def head_of(file: pa.NativeFile, codec: str | None) -> bytes:
    """Returns the first bytes of a file, decompressed."""
    if codec is None:
        return bytes(file.read_at(min(_HEAD, file.size()), 0))
    packed = file.read_at(min(_PACKED_HEAD, file.size()), 0)
    head: bytes = pa.CompressedInputStream(pa.BufferReader(packed), codec).read(_HEAD)
    return head


def unpacked(file: pa.NativeFile, codec: str | None) -> pa.NativeFile:
    """Returns a stream of the decompressed file from its start. It closes the file when it is freed."""
    file.seek(0)
    return file if codec is None else pa.CompressedInputStream(file, codec)
