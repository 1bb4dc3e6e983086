"""The limited wait of a plan for answers about splits, or for the end of a stall, with warnings."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from flip27_stream.errors import ConnectorError, ContractError, some_of
from flip27_stream.spark.source_spec import AnyEnumerator
from watermark_alignment.planner import BACKLOG

TIMEOUT_S = 60.0
"""The time (s) after which a split without an answer is an error, and after which a stall is logged, repeatedly."""
GIVE_UP_S = 300.0
"""The time (s) after which a stall that nothing can end is an error."""
_LONGEST_TURN_S = 40.0
_PAUSE_S = 0.05

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stall:
    """The state of a run that has not reached its end and moves no split.

    Attributes:
        what: A description of the run and of the reason why it waits.
        handled: How often the handler of each unfinished call of ``call_async`` was run, by the call's number.
            Only such a call can end the stall.
        ends_by_itself: Whether the stall ends by itself after some time.
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
    """Returns the state of a stalled run, with the reason.

    Args:
        source: The fingerprint of the source.
        enumerator: The enumerator of the source.
        pending: The number of splits that the enumerator has not assigned.
        left: The ids of the splits that are not at the ends of the run.
        handled: See :class:`Stall`.
        held_by: The split or the group that holds splits back by its lag; ``None`` without one.
    """
    who, reasons = type(enumerator).__name__, []
    if pending:
        reasons.append(
            f"{who}.pending() returns {pending}, but admit() and handlers assign none of these splits"
        )
    if left:
        reasons.append(
            f"these splits are not at their ends: {some_of(sorted(left))}, but {who}.split_ranges() returns no "
            "further records of them"
        )
    if held_by is not None:
        reasons.append(f"alignment holds splits back for {held_by}")
    return Stall(
        f"The run of '{source}' with a fixed end (AvailableNow or a batch read) does not end: {'; '.join(reasons)}.",
        handled,
        ends_by_itself=held_by not in (None, BACKLOG),
    )


class StallDetector:
    """Measures the time for which one plan has waited.

    At most 40 s count between two calls: no call of ``split_ranges`` takes longer, but the machine may be paused.
    """

    def __init__(self) -> None:
        self._waited_s = 0.0
        self._read_at: float | None = None
        self._silent_since: float | None = None
        self._stalled: tuple[float, Mapping[int, int]] | None = None
        self._warnings = 0

    def wait_for(self, silent: Collection[str], stall: Stall | None = None) -> None:
        """Waits 50 ms before a plan tries again, or fails if the plan has waited for too long.

        Args:
            silent: The ids of the splits without an answer.
            stall: The stall of the run; ``None`` if it is not stalled.

        Raises:
            ConnectorError: Some splits have been without an answer for 60 s.
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
                "batch can be planned without the answer. Check that their leaders are up."
            )
        if stall is None:
            self._stalled = None
        else:
            self._check(stall, now)
        time.sleep(_PAUSE_S)

    def _waited(self) -> float:
        """Returns the time (s) for which the plan has waited."""
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
                f"{stall.what} It has waited for {now - since:.0f} s, although every function passed to call_async has "
                "run since. Nothing is lost; the next run goes on from the same offset. Correct the enumerator."
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
