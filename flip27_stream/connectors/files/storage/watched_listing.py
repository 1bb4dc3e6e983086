"""A listing that may hang: a network file system that answers nothing holds the call of the system for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import ClassVar

from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.connectors.files.storage.listing import FileListing
from flip27_stream.errors import UnreachableError
from flip27_stream.threads import start

FilesByPath = dict[str, list[FoundFile]]


class WatchedListing:
    """Lists in a thread of its own, and waits for it while it goes on finding files.

    Only local folders are watched; they may be mounts. A listing that hangs keeps its thread, which nobody can end. No
    second one is started beside it: the next call waits for the same listing, and takes what it finds once it goes on.

    Attributes:
        patience_s: how long (s) a listing may find nothing before it is taken for hung.
    """

    patience_s: ClassVar[float] = 120.0

    def __init__(self, listing: FileListing) -> None:
        self._listing = listing
        self._under_way: _Run | None = None

    def __call__(self) -> FilesByPath:
        """As :meth:`FileListing.by_path`.

        Raises:
            UnreachableError: also where it hangs.
            ConnectorError: also where the thread cannot be started.
        """
        if self._listing.storage.uri:  # stores have time-outs of their own, and tell all files at once
            return self._listing.by_path()
        if self._under_way is None:
            self._under_way = _Run(self._listing)
        found = self._under_way.wait(self.patience_s)
        if found is None:
            raise UnreachableError(
                f"Listing {', '.join(self._listing.paths)} hangs: nothing was found for {self.patience_s:g} s. Check "
                "that the file system answers, and its mount."
            )
        self._under_way = None
        return found()


class _Run:
    """One listing in its thread."""

    def __init__(self, listing: FileListing) -> None:
        self._listing = listing
        self._changed = threading.Condition()
        self._count = 0
        self._found: Callable[[], FilesByPath] | None = None
        start(threading.Thread(target=self._run, name="flip27-listing", daemon=True))

    def wait(self, patience_s: float) -> Callable[[], FilesByPath] | None:
        """What gives or raises the outcome; ``None`` if nothing was found for so long."""
        with self._changed:
            before, heard = self._count, time.monotonic()
            while self._found is None:
                if self._count != before:
                    before, heard = self._count, time.monotonic()
                left = heard + patience_s - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)
            return self._found

    def _run(self) -> None:
        try:
            under = self._listing.by_path(self._note)
            outcome = _returning(under)
        except BaseException as error:  # noqa: BLE001 - who asked for the listing is told
            outcome = _raising(error)
        with self._changed:
            self._found = outcome
            self._changed.notify_all()

    def _note(self, _: FoundFile) -> None:
        self._count += 1


def _returning(under: FilesByPath) -> Callable[[], FilesByPath]:
    return lambda: under


def _raising(error: BaseException) -> Callable[[], FilesByPath]:
    def fail() -> FilesByPath:
        raise error

    return fail
