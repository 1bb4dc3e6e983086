"""The commit times of versions of a Delta table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def first_since(at: int, modified: Mapping[int, int], in_commit: Mapping[int, int | None]) -> int | None:
    """Returns the first version that was committed at ``at`` (ms) or later, or ``None`` (``DeltaHistoryManager``).

    In-commit timestamps, which a table has from some version on, are taken as they are. The versions before have the
    modification times of their files, each at least 1 ms after the previous time (``monotonizeCommitTimestamps``).

    Args:
        at: The time to look for.
        modified: The modification times (ms) of commit files, by version, in the order of versions.
        in_commit: The in-commit timestamps (ms) by version; ``None`` for a version that has none.
    """
    versions = list(modified)
    last_without = max((version for version in versions if in_commit[version] is None), default=-1)
    with_timestamp = {
        version: time for version, time in in_commit.items() if version > last_without and time is not None
    }
    first_with = next(iter(with_timestamp), None)
    if first_with is None or at < with_timestamp[first_with]:
        before: int | None = None
        for version in versions:
            if version == first_with:
                return version
            before = modified[version] if before is None else max(modified[version], before + 1)
            if before >= at:
                return version
    return next((version for version, time in with_timestamp.items() if time >= at), None)
