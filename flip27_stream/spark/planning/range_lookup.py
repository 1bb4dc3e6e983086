"""Calls ``split_ranges`` of an enumerator, and repeats a call that failed for a limited time."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from flip27_stream.api import SourceSplit, SplitRange
from flip27_stream.errors import UnreachableError
from flip27_stream.in_order import found_in
from flip27_stream.spark.planning import stall_detector
from flip27_stream.spark.source_contract import check_ranges
from flip27_stream.spark.source_spec import AnyEnumerator

_LEAST_CALLS = 3
_LASTING = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
"""The errors of the system that another attempt cannot resolve."""

log = logging.getLogger(__name__)


class RangeLookup:
    """Calls ``split_ranges`` and counts the calls that failed in a row.

    Attributes:
        newest: What the last call returned, by split id; empty before the first call.
    """

    def __init__(self) -> None:
        self._failing_since: float | None = None
        self._failed = 0
        self.newest: Mapping[str, SplitRange] = {}

    def ranges(
        self,
        enumerator: AnyEnumerator,
        assigned: Mapping[str, SourceSplit],
        positions: Mapping[str, int],
    ) -> Mapping[str, SplitRange]:
        """Returns the range of each split; empty if ``split_ranges`` raised an ``OSError`` that may be temporary.

        A split without a range is unknown: it keeps its position, and the next plan asks about it again.

        Args:
            enumerator: The enumerator of the source.
            assigned: The assigned splits by their ids.
            positions: The next position to read of each split that has one, by its id.

        Raises:
            ContractError: The result is not valid.
            UnreachableError: ``split_ranges`` has raised an ``OSError`` each time for 60 s, at least three times.
        """
        self.newest = self._ranges(enumerator, assigned, positions)
        return self.newest

    def _ranges(
        self,
        enumerator: AnyEnumerator,
        assigned: Mapping[str, SourceSplit],
        positions: Mapping[str, int],
    ) -> Mapping[str, SplitRange]:
        try:
            wanted = zip(assigned.values(), found_in(list(assigned), positions), strict=True)
            found = enumerator.split_ranges(dict(wanted))
        except _LASTING:
            raise
        except OSError as error:
            self._record_failure(f"{type(enumerator).__name__}.split_ranges()", error)
            return {}
        self._failing_since, self._failed = None, 0
        check_ranges(found, assigned, enumerator)
        return found

    def _record_failure(self, who: str, error: OSError) -> None:
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            log.warning(
                "%s failed. It is repeated for up to %g s: %s: %s",
                who,
                stall_detector.TIMEOUT_S,
                type(error).__name__,
                error,
            )
        self._failed += 1
        waited = now - self._failing_since
        if self._failed >= _LEAST_CALLS and waited >= stall_detector.TIMEOUT_S:
            raise UnreachableError(
                f"{who} has failed for {waited:.0f} s, {self._failed} times in a row, the last time with "
                f"{type(error).__name__}: {error}. Nothing is lost; a restart goes on from the same offset. Check that "
                "this machine reaches the external system of the source."
            ) from error
