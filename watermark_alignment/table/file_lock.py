"""A lock on a file, which the operating system releases when the process that holds it ends or is killed."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


class FileLock:
    """A lock on ``file``, which is created if it does not exist. One object holds it at most once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor: int | None = None
        self._note = ""

    def acquire(self, *, shared: bool = False) -> bool:
        """Takes the lock if it is free, and returns whether this object holds it.

        If the file was deleted while this object held the lock, the lock is taken again, with its note: others would
        lock a new file.

        Args:
            shared: Whether others can hold it at the same time, if they share it too.
        """
        if self._descriptor is not None:
            if self._is_in_place(self._descriptor):
                return True
            self.release()
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):
                raise
            return False
        self._descriptor = descriptor
        if self._note:
            self.write(self._note)
        return True

    def _is_in_place(self, descriptor: int) -> bool:
        """Returns whether the locked file is still the one with this path."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(descriptor), os.stat(self._file))
        return False

    def release(self) -> None:
        """Releases the lock if this object holds it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def write(self, note: str) -> None:
        """Writes the name of the holder of the lock into the file."""
        self._file.write_text(note, encoding="utf-8")
        self._note = note

    def note(self) -> str:
        """Returns the text that the last holder wrote; an empty text if it wrote nothing."""
        with suppress(OSError):
            return self._file.read_text(encoding="utf-8")
        return ""
