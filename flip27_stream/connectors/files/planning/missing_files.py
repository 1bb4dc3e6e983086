"""Files that cannot be found when they are to be read. They may come back, for example on a network mount."""

from __future__ import annotations

import logging
import time

from flip27_stream.connectors.files.storage.retries import Retries
from flip27_stream.errors import DataLossError, UnreachableError
from flip27_stream.local_calls import LocalCall

log = logging.getLogger(__name__)


class FileMissingError(Exception):
    """The next file to read cannot be found now. The next plan looks for it again."""


class MissingFiles:
    """The files that cannot be found, and since when.

    A missing file is looked for during :attr:`Retries.time_limit_s`, as a failed listing is repeated.
    """

    def __init__(self) -> None:
        self._since: dict[str, tuple[float, float]] = {}
        """By path: since when the file is missing, and when it was looked for last (monotonic seconds)."""

    def note(self, path: str, error: DataLossError | UnreachableError) -> None:
        """Records that a file could not be found or read.

        Raises:
            FileMissingError: It may come back.
            DataLossError, UnreachableError: It was missing for too long. The message has the cause.
        """
        now, time_limit_s = time.monotonic(), Retries.time_limit_s
        since, last = self._since.get(path, (now, now))
        if (
            path not in self._since or now - last > time_limit_s + LocalCall.time_limit_s
        ):  # One attempt can hang so long.
            since = now
            log.warning(
                "File %s is the next file to read, and cannot be found or read; reading is tried again for %g s: %s",
                path,
                time_limit_s,
                error,
            )
        self._since[path] = since, now
        if now - since < time_limit_s:
            raise FileMissingError(path) from error
        raise type(error)(
            f"{error} Reading the file was tried repeatedly for {now - since:.0f} s."
        ) from error

    def found(self, path: str) -> None:
        """Records that a file was found."""
        self._since.pop(path, None)
