"""The commit times of versions of a Delta table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from flip27_stream.connectors.files.delta.delta_commit import Action, all_of
from flip27_stream.errors import OptionError
from flip27_stream.options.iso_times import parse_iso_time


def parse_time(text: str, option: str) -> datetime:
    """Returns the time of an ISO 8601 date, or date and time. Without a time zone it is in UTC.

    Raises:
        OptionError: The text has another form.
    """
    time = parse_iso_time(text)
    if time is None:
        raise OptionError.of(
            option, text, "Expected a date such as 2026-01-31, or a time such as 2026-01-31T12:00:00Z."
        )
    return time


def in_commit_timestamp(among: Sequence[Action]) -> int | None:
    """Returns the in-commit timestamp (ms) in the actions of a commit, or ``None`` if they have no such time.

    The ``timestamp`` of ``commitInfo`` is the clock of the writer before the commit. Delta does not use it
    (``DeltaHistoryManager``).
    """
    for info in all_of("commitInfo", among):
        if type(time := info.get("inCommitTimestamp")) is int:
            return time
    return None


def rising(times: Iterable[int]) -> Iterator[int]:
    """Yields the times (ms) of versions, each at least 1 ms after the previous time (Delta
    ``monotonizeCommitTimestamps``).
    """
    before: int | None = None
    for time in times:
        before = time if before is None else max(time, before + 1)
        yield before
