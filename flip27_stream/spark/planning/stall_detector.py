"""Waiting inside one plan for answers about splits, or for a run to go on. The wait is limited, and it is logged."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from flip27_stream.errors import ConnectorError, ContractError
from flip27_stream.reader.drive import some_of
from flip27_stream.spark.source_spec import AnyEnumerator
from watermark_alignment.planner import BACKLOG

TIMEOUT_S = 60.0
"""After this time (s) splits without an answer are an error, and a stall is a warning, repeated each such time."""
GIVE_UP_S = 300.0
"""After this time (s) a stall that nothing can end is an error."""
_LONGEST_TURN_S = 40.0
_PAUSE_S = 0.05

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stall:
    """The state of a run that has not reached its end and moves no split.

    Attributes:
        what: The run, and what it waits for, in words.
        handled: How often the handler of each unfinished call of ``call_async`` was run, by the call's number.
            Only such a call can end the stall.
        ends_by_itself: Whether the stall ends with time alone.
    """

    what: str
    handled: Mapping[int, int] = field(default_factory=dict)
    ends_by_itself: bool = False


def find_stall(
    source: str,
    enumerator: AnyEnumerator,
    *,
    pending: int,
    left: Collection[str],
    handled: Mapping[int, int],
    held_by: str | None = None,
) -> Stall:
    """Returns why a run is stalled.

    Args:
        source: What is read, in words.
        enumerator: The enumerator of the source.
        pending: The number of splits that the enumerator has not assigned.
        left: The ids of the splits that are not at the ends of the run.
        handled: See :class:`Stall`.
        held_by: The split or the group whose lag holds splits back; ``None`` if nothing does.
    """
    who, reasons = type(enumerator).__name__, []
    if pending:
        reasons.append(
            f"{who}.pending() returns {pending}, but admit() and handlers assign none of these splits"
        )
    if left:
        reasons.append(
            f"these splits are not at their ends: {some_of(sorted(left))}, but {who}.split_ranges() returns no more "
            "of them"
        )
    if held_by is not None:
        reasons.append(f"alignment holds splits back for {held_by}")
    return Stall(
        f"The run of '{source}' with a fixed end (AvailableNow or a batch read) does not end: {'; '.join(reasons)}.",
        handled,
        ends_by_itself=held_by not in (None, BACKLOG),
    )


class StallDetector:
    """Counts how long one plan has waited.

    Between two calls at most 40 s count. No look at the splits takes longer, but the machine may have been paused.
    """

    def __init__(self) -> None:
        self._waited_s = 0.0
        self._read_at: float | None = None
        self._silent_since: float | None = None
        self._stalled: tuple[float, Mapping[int, int]] | None = None
        self._warnings = 0

    def wait_for(self, silent: Collection[str], stall: Stall | None = None) -> None:
        """Waits 50 ms before the next look of a plan, or fails if the plan has waited for too long.

        Args:
            silent: The ids of the splits without an answer.
            stall: Why the run is stalled; ``None`` if it is not.

        Raises:
            ConnectorError: There have been splits without an answer for 60 s.
            ContractError: The run has been stalled for 300 s, and all calls that could change that were handled.
        """
        now = self._waited()
        if not silent:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now
        if self._silent_since is not None and now - self._silent_since > TIMEOUT_S:
            raise ConnectorError(
                f"No answer about {len(silent)} splits ({some_of(sorted(silent))}) came for {TIMEOUT_S:g} s, and no "
                "batch can be planned without it. Check that their leaders are up."
            )
        if stall is None:
            self._stalled = None
        else:
            self._check(stall, now)
        time.sleep(_PAUSE_S)

    def _waited(self) -> float:
        """Returns how long (s) the plan has waited."""
        read_at = time.monotonic()
        if self._read_at is not None:
            self._waited_s += min(read_at - self._read_at, _LONGEST_TURN_S)
        self._read_at = read_at
        return self._waited_s

    def _check(self, stall: Stall, now: float) -> None:
        if self._stalled is None:
            self._stalled = now, stall.handled
            self._warnings = 0
        since, handled = self._stalled
        to_come = sum(n <= handled.get(call, 0) for call, n in stall.handled.items())
        if now - since > GIVE_UP_S and not to_come and not stall.ends_by_itself:
            raise ContractError(
                f"{stall.what} It has waited for {now - since:.0f} s, and nothing is left to wait for: every function "
                "passed to call_async has run since. Nothing is lost; the next run goes on here. Correct the "
                "enumerator."
            )
        if now - since > TIMEOUT_S * (self._warnings + 1):
            self._warnings += 1
            calls = f", also for {to_come} calls of call_async" if to_come else ""
            log.warning(
                "%s It has waited for %.0f s%s. The query can be stopped at any time.",
                stall.what,
                now - since,
                calls,
            )
