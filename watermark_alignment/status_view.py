"""How splits stand, for people: a table with colours; and for programs: JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from watermark_alignment.member_news import MemberNews
from watermark_alignment.states import SplitStatus
from watermark_alignment.status import SplitMetrics, Status, Wait

_COLOURS = {
    SplitStatus.ACTIVE: "green",
    SplitStatus.PAUSED: "yellow",
    SplitStatus.IDLE: "blue",
    SplitStatus.FINISHED: "bright_black",
}
_UNKNOWN = "–"
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


def to_json(status: Status, now: int) -> str:
    """One line: an array with an object for every split, by the names of Flink's metrics; times in ms."""
    return json.dumps([_object(split, status.told(split.member), now) for split in status.splits])


def _object(split: SplitMetrics, told: MemberNews, now: int) -> dict[str, str | int | float | None]:
    return {
        "group": split.group,
        "source": split.source,
        "split": split.split,
        "status": str(split.status),
        "batch": split.batch,
        "recorded_at": split.recorded_at,
        "currentWatermark": split.watermark,
        "watermarkLag": split.lag,
        "watermarkAlignmentDrift": split.drift,
        "numRecordsInPerSecond": split.rows_per_second,
        **{f"{status.lower()}TimeMsPerSecond": ms for status, ms in split.per_second.items()},
        "max_drift_ms": told.note.max_drift_ms if told.note is not None else None,
        "unreported": told.note.unreported if told.note is not None else None,
        "waiting": told.entry.waiting if told.entry is not None else None,
        "held_by": told.entry.held_by if told.entry is not None else None,
        "is_there": told.is_there(now),
    }


def render(status: Status, now: int, *, most: int | None = None) -> RenderableType:
    """A table for each group, and below it what there is to say of it.

    :param now: the clock (ms).
    :param most: how many splits there is room for; those furthest behind are shown.
    """
    shown = _furthest_behind(status.splits, most)
    parts: list[RenderableType] = []
    for group, members in groupby(status.splits, key=lambda split: split.group):
        of_group = list(members)
        parts.append(_table(group, status, [split for split in of_group if split in shown], now))
        parts.append(_summary(of_group, hidden=sum(split not in shown for split in of_group)))
        parts += [Text(remark, style="yellow") for remark in _remarks(status, of_group, now)]
        parts.append("")
    return Group(*parts)


def _furthest_behind(splits: Sequence[SplitMetrics], most: int | None) -> Sequence[SplitMetrics]:
    if most is None or len(splits) <= most:
        return splits
    by_watermark = sorted(splits, key=lambda s: (not s.status.counts, s.watermark is None, s.watermark or 0))
    return by_watermark[:most]


def _table(group: str, status: Status, splits: Iterable[SplitMetrics], now: int) -> Table:
    table = Table(
        title=Text(f"group {group}"), title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    table.padding = 0, 2, 0, 0
    table.add_column("source and split", overflow="fold")
    for name in ("state", "watermark (UTC)"):
        table.add_column(name, no_wrap=True)
    for name in ("drift", "lag", "rows/s", "batch", "ago"):
        table.add_column(name, justify="right", no_wrap=True)
    for source, members in groupby(splits, key=lambda split: split.source):
        of_source = list(members)
        told = status.told(of_source[0].member)
        gone = Text(" (gone)" if told.is_there(now) is False else "", style="not bold bright_black")
        table.add_row(Text(source, style="bold") + gone)
        for split in of_source:
            table.add_row(*_cells(split, told, now))
    return table


def _cells(split: SplitMetrics, told: MemberNews, now: int) -> list[str | Text]:
    above = told.note is not None and split.drift is not None and split.drift > told.note.max_drift_ms
    return [
        Text(f"  {split.split}"),
        Text(str(split.status), style=_COLOURS[split.status]),
        _UNKNOWN if split.watermark is None else event_time(split.watermark),
        Text(_UNKNOWN if split.drift is None else duration(split.drift), style="bold red" if above else ""),
        _UNKNOWN if split.lag is None else duration(split.lag),
        _UNKNOWN if split.rows_per_second is None else f"{split.rows_per_second:,.0f}",
        f"{split.batch:,}",
        duration(now - split.recorded_at),
    ]


def _summary(splits: Sequence[SplitMetrics], hidden: int) -> Text:
    counted = Counter(split.status for split in splits)
    parts = [f"{counted[status]:,} {status}" for status in SplitStatus if counted[status]]
    line = Text(f"{len(splits):,} split{'s' if len(splits) > 1 else ''}: {', '.join(parts)}.")
    if hidden:
        line.append(f" {hidden:,} more than fit here, none further behind.")
    return line


def _remarks(status: Status, splits: Sequence[SplitMetrics], now: int) -> list[str]:
    """What there is to say of the splits of one group, in sentences."""
    members = dict.fromkeys(split.member for split in splits)
    said = [_waiting(wait) for wait in status.waits(now) if wait.member in members]
    for member in members:
        note = status.told(member).note
        if note is not None and note.unreported:
            said.append(
                f"Watermarks of source {member.source} are planned, not observed: {note.unreported:,} of the splits of "
                f"its batch {note.batch:,} were not reported."
            )
    return said


def _waiting(wait: Wait) -> str:
    splits = "1 split" if wait.splits == 1 else f"{wait.splits:,} splits"
    verb = "waits" if wait.splits == 1 else "wait"
    whose = "" if wait.holder.member == wait.member else f" of source {wait.holder.source}"
    return f"{splits} of source {wait.member.source} {verb} for {wait.holder.split}{whose}."


def event_time(ms: int) -> str:
    """Date and time, UTC, to the second; what no calendar has as a number."""
    try:
        at = datetime.fromtimestamp(ms / 1000, tz=timezone.utc)
    except (ValueError, OverflowError):
        return f"{ms} ms"
    return at.isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")


def duration(ms: int) -> str:
    """The two greatest units: "3h12m"; tenths of a second below a minute: "4.2s"."""
    sign, left = "-" if ms < 0 else "", abs(ms)
    if left < 60_000:
        return f"{sign}{left}ms" if left < 1000 else f"{sign}{left // 100 / 10:.1f}s"
    parts: list[str] = []
    for unit, length in _UNITS:
        count, left = divmod(left, length)
        if count or parts:
            parts.append(f"{count}{unit}")
    return sign + "".join(parts[:2])
