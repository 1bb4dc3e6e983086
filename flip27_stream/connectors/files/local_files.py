"""Opens files to read. A file on a mount of this machine that does not answer is an error after a time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from pyarrow import NativeFile
from pyarrow.fs import FileSystem, LocalFileSystem

from flip27_stream.errors import ConnectorError
from flip27_stream.local_calls import NO_ANSWER, LocalCall, Note, answered, blocked, raising, returning


def open_file(fs: FileSystem, path: str) -> NativeFile:
    """Returns the opened file. The last byte of a local file is read, too, to check that the mount answers.

    Raises:
        UnreachableError: The local file system does not answer.
        OSError: The file cannot be opened.
    """
    if not isinstance(fs, LocalFileSystem):
        return fs.open_input_file(path)
    if (ahead := _ahead.files.pop(path, None)) is not None:
        return ahead()
    return answered(partial(_opened, fs, path), f"Opening {path}")


@contextmanager
def opened_ahead(fs: FileSystem, paths: Sequence[str]) -> Iterator[None]:
    """Opens many files of the local file system in one call. Within the context, :func:`open_file` returns them.

    To pass each file to another thread takes longer than to open it. Only calls of this thread get the files. A file
    that was not opened, because it cannot be or comes after one that hangs, is opened by :func:`open_file` as usual.
    """
    before = _ahead.files
    _ahead.files = _opened_together(fs, paths) if paths and isinstance(fs, LocalFileSystem) else {}
    try:
        yield
    finally:
        _ahead.files = before


class _Ahead(threading.local):
    """The files that :func:`opened_ahead` has opened for this thread by path, or the error of one that hangs."""

    def __init__(self) -> None:
        self.files: dict[str, Callable[[], NativeFile]] = {}


_ahead = _Ahead()


def _opened_together(fs: FileSystem, paths: Sequence[str]) -> dict[str, Callable[[], NativeFile]]:
    opened: dict[str, Callable[[], NativeFile]] = {}
    tried: list[str] = []
    given_up = threading.Event()

    def open_all(note: Note) -> None:
        for path in paths:
            if given_up.is_set():
                return
            tried.append(path)
            with suppress(Exception):  # It is raised again where the file is needed.
                opened[path] = returning(_opened(fs, path))
            note(path)

    try:
        ended = LocalCall(open_all).wait()
    except ConnectorError:
        return {}
    finally:
        given_up.set()
    found = dict(opened)
    if ended is None:
        found.update((path, raising(blocked(f"Opening {path}", NO_ANSWER))) for path in tried[-1:])
    return found


def _opened(fs: FileSystem, path: str) -> NativeFile:
    file = fs.open_input_file(path)
    file.read_at(1, max(file.size() - 1, 0))
    file.seek(0)
    return file
