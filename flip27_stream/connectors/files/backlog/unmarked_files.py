"""Checks of the first listing of a process, for processed files without a mark: missing and added files."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from flip27_stream.connectors.files.backlog.digest import BucketMismatch, FileSetDigest, IncompleteBucket
from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.errors import DataLossError
from flip27_stream.time_text import time_text

log = logging.getLogger(__name__)


class MissingFilesAtStart:
    """Files that were assigned before, have no mark in the checkpoint, and were not listed at the start of the process.

    A disk may have been unavailable then. Their names are not known, only their number in each bucket (see
    ``digest.py``), and the exclusive or of their identities. So they are recognised only if all files of a bucket
    return in one listing.
    """

    def __init__(self) -> None:
        self._buckets: list[IncompleteBucket] = []

    def record(self, incomplete: Collection[IncompleteBucket]) -> None:
        """Records the files that are missing in the first listing."""
        self._buckets = list(incomplete)

    def returned_among(self, appeared: Collection[FoundFile]) -> list[FoundFile]:
        """Returns the files of ``appeared`` that are certainly returned files.

        Logs a warning if further files may be returned files, which are then read a second time.
        """
        back: list[FoundFile] = []
        for bucket in self._buckets if appeared else ():
            inside = [file for file in appeared if bucket.has(file)]
            if inside and FileSetDigest.of(inside) == bucket.files:
                back += inside
            elif inside:
                log.warning(
                    "%d files modified after %s and up to %s (UTC) have appeared, %s among them. %d files of these "
                    "times had been read and were missing when the query started. The files that have appeared may be "
                    "some of these: they are read, perhaps a second time",
                    len(inside),
                    time_text(max(bucket.after, 0), "milliseconds"),
                    time_text(bucket.until, "milliseconds"),
                    inside[0].path,
                    bucket.files.files,
                )
        self._buckets = [bucket for bucket in self._buckets if not any(bucket.has(file) for file in back)]
        return back


def report_mismatches(mismatches: Iterable[BucketMismatch], *, fail: bool) -> None:
    """Logs a warning for each bucket in which files may have been added unnoticed.

    Raises:
        DataLossError: Files were certainly added, and ``fail`` is set.
    """
    for after, until, count, there in mismatches:
        since, last = (time_text(each, "milliseconds") for each in (after, until))
        which = f"modified after {since} and up to {last} (UTC)"
        if there < count:
            log.warning(
                "Of %d files %s, which were read, %d have disappeared since the last run. Files that were added "
                "meanwhile with modification times in this interval are not detected and not read",
                count,
                which,
                count - there,
            )
            continue
        text = (
            f"{there} files {which} exist, and {count} were read or listed before: some were added while no "
            "query ran, and because of their old modification times they cannot be distinguished from those that "
            "were read. Give the new files a new modification time, or set option failOnDataLoss to false to go on "
            "without them."
        )
        if fail:
            raise DataLossError(text)
        log.warning("%s", text)
