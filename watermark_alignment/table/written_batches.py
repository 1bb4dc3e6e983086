"""A record of the batches that were written to a split-watermark table of a catalog, or may have been."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from watermark_alignment.table.catalog_spool import SpooledCommit

_MOST_AT_ONCE: Final = 100


class WrittenBatches:
    """The last batch whose commit was written, or begun, by application; stored in a file.

    Several commits that are written together are a run. A run that was begun is begun again with the same commits and
    the same version of its application transaction, so that Delta refuses it if it was written.

    Args:
        file: The file of the record.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def next_run(
        self, app: str, commits: list[SpooledCommit]
    ) -> tuple[list[SpooledCommit], list[SpooledCommit]]:
        """Returns the commits to write next, and the commits that are left.

        If the record has no entry of the application, as on a new driver, the first commit is written alone, because
        the table may already have it.
        """
        begun = self._read().get(app)
        if begun is None:
            return commits[:1], commits[1:]
        length = sum(commit.batch <= begun for commit in commits) or _MOST_AT_ONCE
        return commits[:length], commits[length:]

    def begin(self, app: str, run: list[SpooledCommit]) -> int:
        """Records that ``run`` is about to be written, and returns its version."""
        begun = self._read()
        if run[-1].batch > begun.get(app, -1):
            begun[app] = run[-1].batch
            unfinished = self._file.with_suffix(".unfinished")
            with unfinished.open("w", encoding="utf-8") as data:
                json.dump(begun, data)
                data.flush()
                os.fsync(data.fileno())  # the table must not have a run that this file forgets
            unfinished.replace(self._file)
        return begun[app]

    def _read(self) -> dict[str, int]:
        try:
            begun: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return begun
