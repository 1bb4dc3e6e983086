"""Waiting, inside one plan, for what is not there yet; not for ever, and not without a word."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from flip27_stream.errors import ConnectorError, ContractError
from flip27_stream.spark.source_spec import AnyEnumerator
from watermark_alignment.planner import BACKLOG

PATIENCE_S = 60.0
GIVE_UP_S = 300.0
_LONGEST_TURN_S = 40.0
_PAUSE_S = 0.05
_NAMED = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stall:
    """A run that is not at its end, and moves nothing.

    Attributes:
        what: whose run it is, and what it waits for.
        turns: how often each call that still comes was handled, by its number: what can change something.
        ends_by_itself: whether time alone ends it.
    """

    what: str
    turns: Mapping[int, int] = field(default_factory=dict)
    ends_by_itself: bool = False


def find_stall(
    source: str,
    enumerator: AnyEnumerator,
    *,
    pending: int,
    left: Collection[str],
    turns: Mapping[int, int],
    held_by: str | None = None,
) -> Stall:
    """Of a run of ``source`` that has splits ``pending``, or ``left`` before their ends.

    Args:
        source: what is read, in words.
        enumerator: of the source.
        pending: how many splits the enumerator tells of that are not assigned.
        left: the splits that do not stand at the run's ends.
        turns: see :class:`Stall`.
        held_by: whose lag holds splits back.
    """
    who, reasons = type(enumerator).__name__, []
    if pending:
        reasons.append(
            f"{who}.pending() tells of {pending} splits, and neither admit() nor anything else assigns them"
        )
    if left:
        some = ", ".join(sorted(left)[:_NAMED]) + (
            f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        )
        reasons.append(f"{some} are not at their ends, and {who}.split_ranges() offers no more of them")
    if held_by is not None:
        reasons.append(f"alignment holds splits back for {held_by}")
    return Stall(
        f"The run of '{source}' up to what is there does not end: {'; '.join(reasons)}.",
        turns,
        ends_by_itself=held_by not in (None, BACKLOG),
    )


class StallDetector:
    """The patience of one plan.

    From one wait to the next 40 s count at most: no look takes longer, but a machine may have been paused meanwhile.
    """

    def __init__(self) -> None:
        self._waited_s = 0.0
        self._read_at: float | None = None
        self._silent_since: float | None = None
        self._standing: tuple[float, Mapping[int, int]] | None = None
        self._warnings = 0

    def wait_for(self, silent: Collection[str], find_stall: Stall | None = None) -> None:
        """Wait a moment for splits that nobody answers about, or for a run to go on.

        Raises:
            ConnectorError: there are silent splits, and there were for too long.
            ContractError: the run has stood still for long, whatever could change that has had its turn, and did not.
        """
        now = self._now()
        if not silent:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now
        if self._silent_since is not None and now - self._silent_since > PATIENCE_S:
            raise ConnectorError(
                f"No answer about {len(silent)} splits, {min(silent)} among them, for {PATIENCE_S:g} s, and nothing "
                "can be planned without. Check that their leaders are up."
            )
        if find_stall is None:
            self._standing = None
        else:
            self._stand(find_stall, now)
        time.sleep(_PAUSE_S)

    def _now(self) -> float:
        """How long it has waited (s)."""
        read_at = time.monotonic()
        if self._read_at is not None:
            self._waited_s += min(read_at - self._read_at, _LONGEST_TURN_S)
        self._read_at = read_at
        return self._waited_s

    def _stand(self, at: Stall, now: float) -> None:
        if self._standing is None:
            self._standing = now, at.turns
            self._warnings = 0
        since, turns = self._standing
        to_come = sum(n <= turns.get(call, 0) for call, n in at.turns.items())
        if now - since > GIVE_UP_S and not to_come and not at.ends_by_itself:
            raise ContractError(
                f"{at.what} It has waited for {now - since:.0f} s, and there is nothing left to wait for: everything "
                "that was passed to call_async has had its turn since. Nothing is lost; the next run goes on here."
            )
        if now - since > PATIENCE_S * (self._warnings + 1):
            self._warnings += 1
            calls = f", for {to_come} calls of call_async among others" if to_come else ""
            log.warning(
                "%s It has waited for %.0f s%s, and can be stopped at any time.", at.what, now - since, calls
            )
