"""The rules for files that cannot be read."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from flip27_stream.api import MetricGroup
from flip27_stream.errors import CorruptRecordError, DataLossError, RecordFormatError

log = logging.getLogger(__name__)

UNREADABLE: Final = (CorruptRecordError, RecordFormatError, DataLossError)
"""The errors of one file, as opposed to errors of the storage."""


@dataclass(frozen=True)
class Tolerance:
    """The kinds of unreadable files that are skipped with a warning and counted. Other unreadable files fail the query.

    Attributes:
        corrupt: Whether to skip the rest of files that do not decode, or whose columns do not fit.
        missing: Whether to skip files that were deleted or replaced after they were listed.
    """

    corrupt: bool = False
    missing: bool = False

    def allows(self, error: Exception) -> bool:
        """Returns whether to skip a file whose reading raised ``error``, one of :data:`UNREADABLE`."""
        return self.missing if isinstance(error, DataLossError) else self.corrupt

    def skip(self, path: str, error: Exception, metrics: MetricGroup) -> None:
        """Logs and counts that a file is skipped. Raises ``error`` if the file must not be skipped."""
        if not self.allows(error):
            raise error
        log.warning("File %s is skipped: %s", path, error)
        metrics.counter(metric_of(error)).inc()


def metric_of(error: Exception) -> str:
    """Returns the name of the metric that counts files skipped because of ``error``."""
    return "missing_files" if isinstance(error, DataLossError) else "corrupt_files"
