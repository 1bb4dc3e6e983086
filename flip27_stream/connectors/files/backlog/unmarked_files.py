"""What the first listing of a process tells of the files that were taken and have no mark."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from flip27_stream.connectors.files.backlog.digest import AwayBucket, BucketMismatch, Rest
from flip27_stream.connectors.files.storage.found_file import FoundFile, time_text
from flip27_stream.errors import DataLossError

log = logging.getLogger(__name__)


class AwayFiles:
    """The files of a digest that were not listed when the process started. Their disk may have been unavailable.

    Their names are not known, only how many there are in each bucket, and the exclusive-or of their identities. So they
    are known again if all of a bucket come back in one listing.
    """

    def __init__(self) -> None:
        self._away: list[AwayBucket] = []

    def lack(self, away: Collection[AwayBucket]) -> None:
        """Records what the first listing lacks."""
        self._away = list(away)

    def came_back(self, appeared: Collection[FoundFile]) -> list[FoundFile]:
        """Returns those of the files that have appeared that are certainly files that were away.

        Logs a warning if some may be such files and may be read a second time.
        """
        back: list[FoundFile] = []
        for bucket in self._away if appeared else ():
            inside = [file for file in appeared if bucket.has(file)]
            if inside and Rest.of(inside) == bucket.files:
                back += inside
            elif inside:
                log.warning(
                    "%d files modified after %s and up to %s have appeared, %s among them. %d files of these times had "
                    "been read and were missing when the query started. The files that have appeared may be some of "
                    "them: they are read, perhaps a second time",
                    len(inside),
                    time_text(max(bucket.after, 0)),
                    time_text(bucket.until),
                    inside[0].path,
                    bucket.files.files,
                )
        self._away = [bucket for bucket in self._away if not any(bucket.has(file) for file in back)]
        return back


def report_mismatches(mismatches: Iterable[BucketMismatch], *, fail: bool) -> None:
    """Logs a warning for each bucket in which files may have been added unnoticed.

    Raises:
        DataLossError: Files were certainly added, and ``fail`` is set.
    """
    for after, until, count, there in mismatches:
        which = f"modified after {time_text(after)} and up to {time_text(until)}"
        if there < count:
            log.warning(
                "Of %d files %s, which were read, %d have disappeared since the last run. Files that were added "
                "meanwhile with modification times as old are not noticed and not read",
                count,
                which,
                count - there,
            )
            continue
        text = (
            f"There are {there} files {which}, where {count} were read or listed before: some were added while no "
            "query ran, and their modification times are so old that they cannot be told from those that were "
            "read. Give the new files a new modification time, or set option failOnDataLoss to false to go on "
            "without them."
        )
        if fail:
            raise DataLossError(text)
        log.warning("%s", text)
