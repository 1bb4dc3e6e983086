"""Problems of groups that their table shows, with remedies: stalls, too much drift, missing reports."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from flip27_stream.time_text import time_text
from watermark_alignment.formatting import duration, name, name_in_sentence
from watermark_alignment.monitoring.status import SplitMetrics, Status, Wait
from watermark_alignment.table.recordings import Member


class Finding(NamedTuple):
    """A problem that is reported once.

    Attributes:
        about: A key that identifies the problem.
        text: A sentence about the problem, and a sentence with the remedy.
    """

    about: tuple[str, ...]
    text: str


def findings(status: Status, lineages: Collection[str], now: int) -> list[Finding]:
    """Returns the problems of the sources that belong to some checkpoints.

    Args:
        status: The status of their table.
        lineages: The lineages of the checkpoints.
        now: The present time (ms since the epoch).
    """
    splits = [split for split in status.splits if _is_of(status, split.member, lineages)]
    return [*_drifts(status, splits), *_unreported(status, splits), *_event_times(status, splits, now)]


def stalls(status: Status, lineages: Collection[str], now: int, longer_than_ms: int) -> list[Finding]:
    """Returns the splits for which the sources of some checkpoints wait, if their query has found nothing to read.

    Args:
        status: The status of their table.
        lineages: The lineages of the checkpoints.
        now: The present time (ms since the epoch).
        longer_than_ms: The least duration (ms) of a wait that is reported.
    """
    found = []
    for wait in status.waits(now):
        silence = now - wait.holder.recorded_at
        if silence > longer_than_ms and _is_of(status, wait.member, lineages):
            found.append(_stall(wait, silence, status))
    return found


def _stall(wait: Wait, silence: int, status: Status) -> Finding:
    holder = wait.holder
    whose = "its source" if holder.member == wait.member else f"source {_called(status, wait.member)}"
    since = f" at event time {time_text(holder.watermark)}" if holder.watermark is not None else ""
    return Finding(
        ("stall", holder.group, holder.source, holder.split),
        f"Split {name(holder.split)} of source {_called(status, holder.member)} stalls group "
        f"'{name(holder.group)}'{since}: no record was read from it for {duration(silence)}, "
        f"and {wait.splits:,} of the splits of {whose} wait for it. "
        "Find out why it has no records, or make it idle sooner (scan.watermark.idle-timeout).",
    )


def _drifts(status: Status, splits: Sequence[SplitMetrics]) -> Iterator[Finding]:
    for split in splits:
        max_drift = status.info_of(split.member).max_drift_of_batch_ms
        if max_drift is not None and split.drift is not None and split.drift > max_drift:
            yield Finding(
                ("drift", split.group, split.source),
                f"Split {name(split.split)} of source {_called(status, split.member)} was read "
                f"{duration(split.drift)} ahead of the slowest split of group '{name(split.group)}', more than "
                f"max-drift ({duration(max_drift)}) allows. Either the slowest is new or came back from being "
                "idle, or splits of this kind cannot be cut at an event time. Rows of the slowest are dropped unless "
                "the delay of withWatermark is longer than this drift + max-out-of-orderness: make it longer, or read "
                "smaller batches.",
            )


def _unreported(status: Status, splits: Sequence[SplitMetrics]) -> Iterator[Finding]:
    for split in splits:
        note = status.info_of(split.member).note
        if note is not None and note.unreported:
            yield Finding(
                ("unreported", split.group, split.source),
                f"Watermarks of source {_called(status, split.member)} are planned, not observed: tasks did not report "
                f"{note.unreported:,} of the splits of its batch {note.batch:,}. Rows stay aligned nevertheless. Let "
                "executors reach the driver at spark.driver.host to see the observed watermarks.",
            )


def _event_times(status: Status, splits: Sequence[SplitMetrics], now: int) -> Iterator[Finding]:
    for member in dict.fromkeys(split.member for split in splits):
        note = status.info_of(member).note
        if note is not None:
            for about, text in note.observed.mistakes(_called(status, member), now):
                yield Finding((about, *member), text)


def _called(status: Status, member: Member) -> str:
    return name_in_sentence(status.names[member])


def _is_of(status: Status, member: Member, lineages: Collection[str]) -> bool:
    """Returns whether the query of the source ``member`` has one of ``lineages``.

    The lineage is in the note that the source writes into the table. Without a note, it is taken from the end of the
    source id, which by default has it.
    """
    note = status.info_of(member).note
    return (note is not None and note.lineage in lineages) or member.source.rpartition("-")[2] in lineages
