"""A split-watermark table that the project's own writer wrote at chosen times in the past."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.watermark_alignment.support.group_entries import entry
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.group.group_view import Entry
from watermark_alignment.table.batch_note import KEY as NOTE
from watermark_alignment.table.batch_note import BatchNote, ObservedEventTimes
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.offsets_behind import OffsetsBehind
from watermark_alignment.table.split_rows import SplitRow
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

MAX_DRIFT_MS = 300_000
SPLITS = 4


def note(batch: int) -> BatchNote:
    """Returns the note on a batch of a source whose records have no event time, and that is behind."""
    return BatchNote(
        "web",
        "clicks",
        "lineage",
        batch,
        MAX_DRIFT_MS,
        1,
        reads="clicks",
        observed=ObservedEventTimes("/time", "ms", records=1000, untimed=1000),
        behind=OffsetsBehind.of((10, 0, 900, 90), 100.0),
    )


def waiting(told: Entry, at: int) -> Entry:
    """Returns the next entry, in which since ``at`` (ms) all splits wait for ``clicks-2``."""
    return told.next(1, waiting=SPLITS - 1, held_by="clicks-2", waits=(("clicks-2",), True), now=at)


class PastTable:
    """A table of source ``clicks`` of group ``web``.

    Args:
        path: The folder of the table.
    """

    def __init__(self, path: Path) -> None:
        self.table = SplitWatermarkTable(str(path), {})
        self.table.open()
        self._log = path / "_delta_log"
        self._times: dict[int, int] = {}

    def batch(self, at: int, batch: int, told: Entry | None = None, states: Sequence[str] = ()) -> None:
        """Appends the rows of a batch that is recorded at ``at`` (ms), with its note and an entry."""
        rows = [
            SplitRow(
                group="web",
                source="clicks",
                split=f"clicks-{n}",
                batch=batch,
                start_position=str(batch * 10),
                end_position=str(batch * 10 + 10),
                rows=10,
                watermark=at - 3_600_000 - n,
                max_event_time=at - 3_600_000 - n,
                status=states[n] if states else "ACTIVE",
                drift_ms=SPLITS - 1 - n,
                recorded_at=at,
            )
            for n in range(SPLITS)
        ]
        metadata = {NOTE: note(batch).to_text()} | ({} if told is None else {MEMBER: told.to_text()})
        self.table.append(f"clicks/{told.run if told is not None else 0}", batch, rows, metadata)
        self._times[self.table.delta.version()] = at

    def batches(self, begin: int, numbers: range, every_ms: int, told: Entry | None = None) -> int:
        """Appends batches that are recorded at equal intervals after ``begin`` (ms). Returns the time of the last."""
        for count, number in enumerate(numbers):
            self.batch(begin + (count + 1) * every_ms, number, told)
        return begin + len(numbers) * every_ms

    def tell(self, at: int, told: Entry, more: Mapping[str, str] | None = None) -> None:
        """Commits an entry at ``at`` (ms)."""
        self._times[self.table.note({MEMBER: told.to_text(), **(more or {})})] = at

    def beats(self, begin: int, end: int, every_ms: int, told: Entry) -> None:
        """Commits an entry again and again, from ``begin`` to ``end`` (ms)."""
        for at in range(begin, end + 1, every_ms):
            self.tell(at, told)

    def checkpoint(self) -> None:
        """Writes a checkpoint of the log. Later, commits before it can be deleted."""
        self.table.delta.create_checkpoint()

    def date(self) -> None:
        """Gives the commits their times, as the clocks of the writer and of the store would have done."""
        for version, at in {0: min(self._times.values()), **self._times}.items():
            path = self._log / f"{version:020}.json"
            actions = [json.loads(line) for line in path.read_text().splitlines()]
            for action in actions:
                if "commitInfo" in action:
                    action["commitInfo"]["timestamp"] = at
            path.write_text("\n".join(map(json.dumps, actions)))
            os.utime(path, (at / 1000,) * 2)

    def clean_up(self) -> None:
        """Runs the table's own maintenance, which deletes commits that are older than 15 minutes from the log."""
        table = SplitWatermarkTable(self.table.uri, {})
        table.open()
        assert Maintenance(table).run()


def alive(began: int, run: str = "1") -> Entry:
    """Returns the entry of source ``clicks`` in a run that began at ``began`` (ms). Each run has its own definition."""
    return entry(
        "clicks",
        group="web",
        lineage="lineage",
        run=run,
        definition=run,
        began=began,
        timeout_ms=60_000,
        reads="clicks",
    )
