"""Rules for files that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flip27_stream.errors import CorruptRecordError, DataLossError, RecordFormatError

UNREADABLE: Final = (CorruptRecordError, RecordFormatError, DataLossError)
"""Errors of one file, as opposed to errors of the storage."""


@dataclass(frozen=True)
class Tolerance:
    """The kinds of unreadable files that are skipped with a warning and counted, instead of failing the query.

    Attributes:
        corrupt: skip the rest of files that do not decode, or whose columns do not fit.
        missing: skip files that are gone, or were written anew after they were listed.
    """

    corrupt: bool = False
    missing: bool = False

    def allows(self, error: Exception) -> bool:
        """Whether a file with that error, one of :data:`UNREADABLE`, is skipped."""
        return self.missing if isinstance(error, DataLossError) else self.corrupt


def metric_of(error: Exception) -> str:
    """Returns the name of the counter of files that are skipped because of that error."""
    return "missing_files" if isinstance(error, DataLossError) else "corrupt_files"
