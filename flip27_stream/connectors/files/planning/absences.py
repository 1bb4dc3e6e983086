"""Files that are away when their turn comes: a mount that hiccups brings them back."""

from __future__ import annotations

import logging
import time

from flip27_stream.connectors.files.storage.retries import Retries
from flip27_stream.errors import DataLossError, UnreachableError

log = logging.getLogger(__name__)


class FileAwayError(Exception):
    """A file that is to be read next is away, and is looked for again in the next plan."""


class Absences:
    """Since when files are away, which are looked for again for :attr:`Retries.patience_s`, as listings are."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[float, float]] = {}
        """By path: since when, and when it was looked for last (monotonic seconds)."""

    def note(self, path: str, error: DataLossError | UnreachableError) -> None:
        """A file was not there, or could not be read.

        Raises:
            FileAwayError: it may come back.
            DataLossError, UnreachableError: it has been away for too long; the text has the cause.
        """
        now, patience_s = time.monotonic(), Retries.patience_s
        since, last = self._since.get(path, (now, now))
        if path not in self._since or now - last > patience_s:
            since = now
            log.warning(
                "File %s is next to be read and is away; it is looked for for %g s: %s",
                path,
                patience_s,
                error,
            )
        self._since[path] = since, now
        if now - since < patience_s:
            raise FileAwayError(path) from error
        raise type(error)(f"{error} It was looked for again and again for {now - since:.0f} s.") from error

    def found(self, path: str) -> None:
        """It is there."""
        self._since.pop(path, None)
