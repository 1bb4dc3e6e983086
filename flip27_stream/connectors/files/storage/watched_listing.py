"""A listing with a time limit. A network file system that does not answer blocks a system call for ever."""

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
    """Lists files in a separate thread, and waits as long as it continues to find files.

    Only local folders are watched, since they can be mounts. The thread of a blocked listing cannot be stopped. No
    second listing is started beside it: the next call waits for the same listing, and returns its result once it
    continues.

    Attributes:
        patience_s: How long (s) a listing may find nothing until it counts as blocked.
    """

    patience_s: ClassVar[float] = 120.0

    def __init__(self, listing: FileListing) -> None:
        self._listing = listing
        self._under_way: _Run | None = None

    def __call__(self) -> FilesByPath:
        """Returns the same as :meth:`FileListing.by_path`, with the same errors.

        Raises:
            UnreachableError: The listing is blocked.
            ConnectorError: The thread cannot be started.
        """
        if self._listing.storage.uri:  # stores have time-outs, and return all files at once
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
    """One listing in its own thread."""

    def __init__(self, listing: FileListing) -> None:
        self._listing = listing
        self._changed = threading.Condition()
        self._count = 0
        self._found: Callable[[], FilesByPath] | None = None
        start(threading.Thread(target=self._run, name="flip27-listing", daemon=True))

    def wait(self, patience_s: float) -> Callable[[], FilesByPath] | None:
        """Returns a function that returns or raises the outcome, or ``None`` if nothing was found for
        ``patience_s``.
        """
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
