"""Checks of the positions by event time that an enumerator returns, before the planner uses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter, ge, le

from flip27_stream.api import EventTimePositions, EventTimes, PositioningRequest, SplitRange
from flip27_stream.api.contract import check_made
from flip27_stream.errors import ContractError, shortened
from flip27_stream.in_order import found_in, missing_from
from flip27_stream.spark.source_spec import AnyEnumerator

_TIME = frozenset([int, type(None)])
_TIME_LIMIT = 2**63


class CheckedPositions(EventTimePositions):
    """A wrapper of the positions of an enumerator that checks all results.

    Args:
        enumerator: The enumerator, for error messages.
        request: The request for the positions.
        positions: The positions that the enumerator returned.

    Raises:
        ContractError: A result has a wrong type, or is outside the ranges of the plan.
    """

    def __init__(self, enumerator: object, request: PositioningRequest, positions: object) -> None:
        who = type(enumerator).__name__
        check_made(f"{who}.event_time_positions()", positions, EventTimePositions)
        assert isinstance(positions, EventTimePositions)
        self._positions = positions
        self._request = request
        self._who = type(positions).__name__
        self._known: Mapping[str, EventTimes] | None = None

    def event_times(self) -> Mapping[str, EventTimes]:
        times = self._positions.event_times()
        who = f"{self._who}.event_times()"
        check_made(who, times, Mapping)
        if not _are_usual_times(times, self._request.ranges):
            self._check_times(who, times)
        self._known = times
        return times

    def _check_times(self, who: str, times: Mapping[str, EventTimes]) -> None:
        """Refuses times of a wrong type, or too large, or of splits that are not in the request."""
        ranges = self._request.ranges
        for name, known in times.items():
            if name not in ranges:
                raise ContractError(
                    f"{who} returned an entry for {shortened(repr(name))}, which is not in the request."
                )
            if not isinstance(known, EventTimes) or not (
                type(known.next) in _TIME and type(known.reach) in _TIME
            ):
                raise ContractError(
                    f"{who} returned {shortened(repr(known))} for split {name!r}; it must be EventTimes of "
                    "milliseconds as int, or None."
                )
        found = [time for each in times.values() for time in (each.next, each.reach) if time is not None]
        if found and not (min(found) >= -_TIME_LIMIT and max(found) < _TIME_LIMIT):
            wrong = max(found, key=abs)
            raise ContractError(
                f"{who} returned the event time {wrong}; it must fit 64 bits, in milliseconds."
            )

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        answer = self._positions.first_at_or_after(event_time)
        who = f"{self._who}.first_at_or_after({event_time})"
        check_made(who, answer, Mapping)
        if missing := missing_from(answer, self._known or {}):
            raise ContractError(f"{who} left out split {min(missing)!r}, which event_times() returned.")
        if not _are_usual_positions(answer, self._request.ranges):
            self._check_positions(who, answer)
        return answer

    def _check_positions(self, who: str, answer: Mapping[str, tuple[int, int]]) -> None:
        """Refuses positions of a wrong type, or outside of the ranges of the plan."""
        spans = found_in(list(answer), self._request.ranges)
        for (name, found), span in zip(answer.items(), spans, strict=True):
            if type(found) is not tuple or len(found) != 2 or not type(found[0]) is type(found[1]) is int:
                raise ContractError(
                    f"{who} returned {shortened(repr(found))} for split {name!r}; it must be a position and a number "
                    "of rows, both of type int."
                )
            if span is not None and (not span.position <= found[0] <= span.end or found[1] < 0):
                raise ContractError(
                    f"{who} returned {found} for split {name!r}; the position must be from {span.position} up to "
                    f"{span.end}, and the rows not negative."
                )

    def rows_before(self, event_time: int) -> Mapping[str, int] | None:
        estimated = self._positions.rows_before(event_time)
        if estimated is None:
            return None
        who = f"{self._who}.rows_before({event_time})"
        check_made(who, estimated, Mapping)
        if missing := missing_from(estimated, self._known or {}):
            raise ContractError(f"{who} left out split {min(missing)!r}, which event_times() returned.")
        for name, rows in estimated.items():
            if type(rows) is not int or rows < 0:
                raise ContractError(
                    f"{who} returned {shortened(repr(rows))} for split {name!r}; it must be a number of rows, of "
                    "type int and not negative."
                )
        return estimated

    def least_to_come(self) -> int | None:
        least: object = self._positions.least_to_come()
        if not _is_time(least):
            raise ContractError(
                f"{self._who}.least_to_come() returned {shortened(repr(least))}; it must return milliseconds "
                "as int, or None."
            )
        return least  # type: ignore[return-value]


def _are_usual_times(times: Mapping[str, EventTimes], ranges: Mapping[str, SplitRange]) -> bool:
    """Returns whether all event times are known and right. Nearly all answers are; no bytecode runs for each split."""
    found = times.values()
    if not found or set(map(type, found)) != {EventTimes} or not times.keys() <= ranges.keys():
        return False
    known = [*map(attrgetter("next"), found), *map(attrgetter("reach"), found)]
    return set(map(type, known)) == {int} and min(known) >= -_TIME_LIMIT and max(known) < _TIME_LIMIT


def _are_usual_positions(answer: Mapping[str, tuple[int, int]], ranges: Mapping[str, SplitRange]) -> bool:
    """Returns whether all positions are right, and in the ranges; see :func:`_are_usual_times`."""
    found = answer.values()
    if not found or set(map(type, found)) != {tuple} or set(map(len, found)) != {2}:
        return False
    positions, rows = zip(*found, strict=True)
    if set(map(type, positions + rows)) != {int} or min(rows) < 0 or list(answer) != list(ranges):
        return False
    spans = ranges.values()
    after_start = map(le, map(attrgetter("position"), spans), positions)
    return all(after_start) and all(map(ge, map(attrgetter("end"), spans), positions))


def checked_positions_after(
    enumerator: AnyEnumerator, ranges: Mapping[str, SplitRange]
) -> Callable[[Mapping[str, int]], Mapping[str, int]] | None:
    """Returns a function that checks the results of :meth:`~flip27_stream.api.SplitEnumerator.positions_after`.

    The function raises :class:`ContractError` if a position is outside of ``ranges``, or not after their beginning. The
    result is ``None`` if positions count rows.
    """
    if enumerator.positions_after({}) is None:
        return None

    def after(rows: Mapping[str, int]) -> Mapping[str, int]:
        who = f"{type(enumerator).__name__}.positions_after()"
        answer = enumerator.positions_after(rows)
        check_made(who, answer, Mapping)
        assert answer is not None
        if wrong := rows.keys() ^ answer.keys():
            raise ContractError(
                f"{who} must return a position for each split in its argument and for no other; it does not for "
                f"split {min(wrong)!r}."
            )
        found = {}
        for name, position in answer.items():
            r = ranges[name]
            if type(position) is not int or position <= r.position:
                raise ContractError(
                    f"{who} returned {shortened(repr(position))} for split {name!r}; it must be an int from "
                    f"{r.position + 1} up to {r.end}."
                )
            found[name] = min(position, r.end)  # A run may end before the range that the enumerator knows.
        return found

    return after


def _is_time(value: object) -> bool:
    return type(value) in _TIME
