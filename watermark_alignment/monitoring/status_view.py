"""The status of splits for people, as a coloured table, and for programs, as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from flip27_stream.time_text import time_text
from watermark_alignment.formatting import duration, name, name_in_sentence
from watermark_alignment.group.member_info import MemberInfo
from watermark_alignment.monitoring.status import SplitMetrics, Status, Wait
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.offsets_behind import OffsetsBehind

_COLOURS = {
    SplitStatus.ACTIVE: "green",
    SplitStatus.PAUSED: "yellow",
    SplitStatus.IDLE: "blue",
    SplitStatus.FINISHED: "bright_black",
}
_COLUMNS = ("source and split", "state", "watermark (UTC)", "drift", "lag", "rows/s", "batch", "ago")
_FIRST_NUMBER = 3
_GAP = 2
_INDENT = "  "
_NARROWEST_NAME = 24
_UNKNOWN = "–"
_NAMED = 5


def to_json(status: Status, now: int) -> str:
    """Returns one line of JSON: an array with an object for every split, with Flink's metrics by name; times in ms."""
    return json.dumps([_object(split, status, now) for split in status.splits])


def _object(
    split: SplitMetrics, status: Status, now: int
) -> dict[str, str | int | float | dict[str, int] | None]:
    info = status.info_of(split.member)
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
        "max_drift_ms": info.max_drift_ms,
        "unreported": info.note.unreported if info.note is not None else None,
        "implausible": info.note.implausible_in_run.get(split.split, 0) if info.note is not None else None,
        "metrics": dict(info.note.metrics) if info.note is not None else None,
        "waiting": info.entry.waiting if info.entry is not None else None,
        "held_by": info.entry.held_by if info.entry is not None else None,
        "is_there": status.is_there(split.member, now),
        "name": status.names[split.member],
        **(info.note.behind if info.note is not None else OffsetsBehind()).metrics(),
    }


def render_to_fit(status: Status, now: int, console: Console) -> RenderableType:
    """Returns what :func:`render` does, with as many splits as fit on the terminal beside all remarks."""
    most = room = max(console.height - 1, 1)
    while True:
        view = render(status, now, most=most)
        excess = len(console.render_lines(view)) - room
        if excess <= 0 or most <= 1:
            return view
        most = max(min(most, len(status.splits)) - excess, 1)


def render(status: Status, now: int, *, most: int | None = None) -> RenderableType:
    """Returns a table for each group, with remarks below it.

    Args:
        status: The status of the split-watermark table.
        now: The present time (ms since the epoch).
        most: The greatest number of splits to show: those for which others wait, and those furthest behind.
    """
    shown = {id(split) for split in _most_important(status, now, most)}
    parts: list[RenderableType] = []
    for group, members in groupby(status.splits, key=lambda split: split.group):
        of_group = list(members)
        parts.append(_Table(group, status, [split for split in of_group if id(split) in shown], now))
        parts.append(_summary(of_group, hidden=sum(id(split) not in shown for split in of_group)))
        parts += [Text(remark, style="yellow") for remark in _remarks(status, of_group, now)]
        parts.append("")
    return Group(*parts)


def _most_important(status: Status, now: int, most: int | None) -> Sequence[SplitMetrics]:
    """Returns ``most`` splits: those for which others wait, the slowest of each group, and then the slowest of all."""
    if most is None or len(status.splits) <= most:
        return status.splits
    slowest = sorted(
        status.splits, key=lambda s: (not s.status.counts, s.watermark is None, s.watermark or 0)
    )
    of_groups = {split.group: split for split in reversed(slowest)}
    first = {id(split) for split in (*(wait.holder for wait in status.waits(now)), *of_groups.values())}
    return sorted(slowest, key=lambda split: id(split) not in first)[:most]


@dataclass(frozen=True)
class _Table:
    """The splits of a group. If the terminal is too narrow for all columns, the last ones are left out."""

    group: str
    status: Status
    splits: Sequence[SplitMetrics]
    now: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = list(self._rows())
        widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
        room = options.max_width - min(widths[0], _NARROWEST_NAME)
        ends = accumulate(width + _GAP for width in widths[1:])
        shown, used = max(((n, end) for n, end in enumerate(ends, 2) if end <= room), default=(1, 0))
        table = Table(
            title=Text(f"group {name(self.group)}"), title_justify="left", title_style="bold",
            box=None, pad_edge=False, show_header=False,
        )  # fmt: skip
        table.padding = 0, _GAP, 0, 0
        for number in range(shown):
            table.add_column(
                justify="right" if number >= _FIRST_NUMBER else "left", no_wrap=True, overflow="ellipsis"
            )
        for first, *others in rows:
            table.add_row(_cut(first, options.max_width - used), *others[: shown - 1])
        yield table

    def _rows(self) -> Iterator[list[Text]]:
        yield [Text(column, style="bold") for column in _COLUMNS]
        for _, members in groupby(self.splits, key=lambda split: split.source):
            of_source = list(members)
            info = self.status.info_of(of_source[0].member)
            is_there = self.status.is_there(of_source[0].member, self.now)
            gone = Text(" (gone)" if is_there is False else "", style="not bold bright_black")
            called = Text(name(self.status.names[of_source[0].member]), style="bold")
            yield [called + gone, *map(Text, [""] * (len(_COLUMNS) - 1))]
            for split in of_source:
                yield _cells(split, info, self.now)


def _cut(text: Text, width: int) -> Text:
    """Returns a text that is not wider than ``width``: of the path of a split its last part, else with an ellipsis."""
    if text.cell_len > width and text.plain.startswith(_INDENT):
        text = text[: len(_INDENT)] + text[len(_INDENT) :].split("/")[-1]
    if text.cell_len <= width:
        return text
    begin = width * 2 // 3
    return text[:begin] + "…" + text[begin + 1 - width :]


def _cells(split: SplitMetrics, info: MemberInfo, now: int) -> list[Text]:
    max_drift = info.max_drift_of_batch_ms
    above = max_drift is not None and split.drift is not None and split.drift > max_drift
    return [
        Text(f"{_INDENT}{name(split.split)}"),
        Text(str(split.status), style=_COLOURS[split.status]),
        Text(_UNKNOWN if split.watermark is None else time_text(split.watermark)),
        Text(_UNKNOWN if split.drift is None else duration(split.drift), style="bold red" if above else ""),
        Text(_UNKNOWN if split.lag is None else duration(split.lag)),
        Text(_UNKNOWN if split.rows_per_second is None else f"{split.rows_per_second:,.0f}"),
        Text(f"{split.batch:,}"),
        Text(duration(now - split.recorded_at)),
    ]


def _summary(splits: Sequence[SplitMetrics], hidden: int) -> Text:
    counted = Counter(split.status for split in splits)
    parts = [f"{counted[status]:,} {status}" for status in SplitStatus if counted[status]]
    line = Text(f"{len(splits):,} split{'s' if len(splits) > 1 else ''}: {', '.join(parts)}.")
    if hidden:
        line.append(f" {len(splits) - hidden:,} are shown: those furthest behind or waited for.")
    return line


def _remarks(status: Status, splits: Sequence[SplitMetrics], now: int) -> list[str]:
    """Returns sentences about the splits of one group."""
    members = dict.fromkeys(split.member for split in splits)
    said = [_waiting(wait, status) for wait in status.waits(now) if wait.member in members]
    for member in members:
        called = name_in_sentence(status.names[member])
        note = status.info_of(member).note
        if note is not None and note.unreported:
            said.append(
                f"Watermarks of source {called} are planned, not observed: {note.unreported:,} of the "
                f"splits of its batch {note.batch:,} were not reported."
            )
        if note is not None and note.implausible_in_run:
            said.append(_implausible(called, note.implausible_in_run))
        if note is not None:
            if note.behind.total:
                said.append(f"After batch {note.batch:,}, source {called} was {note.behind}.")
            said += [text for _, text in note.observed.mistakes(called, now)]
    return said


def _implausible(source: str, counts: Mapping[str, int]) -> str:
    some = ", ".join(f"{name(split)} ({count:,})" for split, count in list(counts.items())[:_NAMED])
    more = f" and {len(counts) - _NAMED:,} more" if len(counts) > _NAMED else ""
    return (
        f"Since source {source} started, {sum(counts.values()):,} of its records had an event time beyond "
        f"max-future: {some}{more}."
    )


def _waiting(wait: Wait, status: Status) -> str:
    splits = "1 split" if wait.splits == 1 else f"{wait.splits:,} splits"
    verb = "waits" if wait.splits == 1 else "wait"
    waiting, holding = (
        name_in_sentence(status.names[member]) for member in (wait.member, wait.holder.member)
    )
    whose = "" if wait.holder.member == wait.member else f" of source {holding}"
    return f"{splits} of source {waiting} {verb} for {name(wait.holder.split)}{whose}."
