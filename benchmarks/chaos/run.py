"""A run of the chaos test, which repeats a fault period, a time without faults, and a comparison of all rows."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.chaos.allowed_errors import Endings
from benchmarks.chaos.disruptions import Disruptions
from benchmarks.chaos.environment import DRIVERS, GROUP, LINKS, MAX_DRIFT_MS, ChaosEnvironment
from benchmarks.chaos.expected_rows import ExpectedRows, faults
from benchmarks.chaos.plan import FaultPeriod, Pace, fault_periods
from benchmarks.chaos.schedule import Schedule
from benchmarks.soak import verdict
from benchmarks.soak.load import DISORDER_MS
from benchmarks.soak.sink import Sink
from benchmarks.soak.watch import CollectedRows, Group
from benchmarks.support.folders import temporary_folder
from flip27_stream.wall_clock import now_ms

_TICK_S, _LOOK_S, _ROWS_S = 0.1, 4.0, 30.0
_START_S, _PROGRESS_S, _COMPLETE_S = 600.0, 60.0, 240.0

_PROCESSES_OF_A_CORE = 2.0


class ChaosError(Exception):
    """The error for a run that cannot continue."""


@dataclass(frozen=True)
class ChaosSettings:
    """The settings of a run.

    Attributes:
        seconds: The least length of the run.
        seed: The seed of all random choices.
        pace: How often faults and acts happen.
        fault_period_s: The shortest and the longest length of a fault period, in seconds.
        folder: The folder of data and logs; ``None`` for a temporary folder, which is removed.
        drivers: The names of the queries of each driver program.
    """

    seconds: float
    seed: int
    pace: Pace = field(default_factory=Pace)
    fault_period_s: tuple[float, float] = (45.0, 75.0)
    folder: Path | None = None
    drivers: Mapping[str, Sequence[str]] = field(default_factory=lambda: DRIVERS)


@dataclass
class Verdict:
    """The result of a run: the number of acts of each kind, the endings of queries, and the findings."""

    done: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    comparisons: int = 0
    rows: int = 0

    def count(self, *kinds: str) -> int:
        """Returns the number of acts whose names begin with one of ``kinds``."""
        return sum(count for what, count in self.done.items() if what.startswith(kinds))


class Chaos:
    """One run. Everything that it starts is stopped when :meth:`run` returns or raises.

    ``say`` gets a sentence for each event.
    """

    def __init__(self, settings: ChaosSettings, say: Callable[[str], None]) -> None:
        self._settings, self._tell = settings, say
        self._began = time.monotonic()
        self._verdict = Verdict()
        self._looked_at = self._rows_looked_at = 0.0
        self._sinks: dict[Path, Sink] = {}

    def run(self) -> Verdict:
        """Runs one fault period after the other, each with a comparison of all rows after it, and returns the result.

        Raises:
            ChaosError: The queries did not start.
        """
        with (
            _folder(self._settings.folder) as folder,
            ChaosEnvironment(folder, self._settings.seed, self._settings.drivers) as environment,
        ):
            self._environment, self._disruptions = environment, Disruptions(environment)
            self._endings = Endings(environment.folder)
            self._group = Group(environment.split_watermarks)
            self._rows = CollectedRows(environment.split_watermarks)
            self._start()
            for period in fault_periods(
                self._settings.seed, LINKS, self._settings.pace, self._settings.fault_period_s
            ):
                self._run_faults(period)
                self._compare_rows()
                if self._passed_s > self._settings.seconds:
                    break
            self._verdict.done, self._verdict.endings = self._disruptions.counts, self._endings.counts
            return self._verdict

    def _start(self) -> None:
        """Starts the driver programs, and returns when the members of the group are at the same event time.

        Before that, rows of a member that joins behind the others may be dropped.
        """
        for driver in self._environment.drivers.values():
            driver.start()
        for _ in range(2):
            time_ms = self._environment.together()
            deadline = time.monotonic() + _START_S
            while not self._have_published(time_ms):
                if time.monotonic() > deadline:
                    words = "\n".join(driver.last_words() for driver in self._environment.drivers.values())
                    raise ChaosError(f"A member of the group read nothing within {_START_S:g} s.\n{words}")
                self._look(every_s=1.0)
                time.sleep(_TICK_S)
        self._since_ms = now_ms()
        self._say("the queries run")

    def _have_published(self, time_ms: int) -> bool:
        """Returns whether each member of the group has published a watermark.

        The watermark must be at least ``time_ms`` less the disorder.
        """
        watermarks = [entries[-1].watermark for entries in self._group.published.values()]
        return sum(watermark >= time_ms - DISORDER_MS - 1 for watermark in watermarks) == len(GROUP)

    def _run_faults(self, period: FaultPeriod) -> None:
        for turn in period.turns:
            self._happened(self._disruptions.turn(turn).what)
        self._environment.write_files(True)
        with Schedule(self._happened) as schedule:
            for planned in period.faults:
                schedule.add(planned.at_s, partial(self._disruptions.fault, planned), planned.lasts_s)
            for disruption in period.disruptions:
                schedule.add(
                    disruption.at_s, partial(self._disruptions.disruption, disruption), disruption.lasts_s
                )
            # On a busy machine an act, or a look at the tables, takes so long that later acts are late.
            while schedule.passed_s < period.seconds or not schedule.all_done:
                schedule.go_on()
                self._look()
                time.sleep(_TICK_S)
        self._environment.network.heal()
        self._happened("all is healed")

    def _compare_rows(self) -> None:
        """Waits until the sinks have all rows that were written by now, and reports those that are missing."""
        self._environment.write_files(False)
        began, busy = time.monotonic(), _busy()
        before = {each.query: self._seen(each).rows for each in self._environment.expected_rows()}
        self._environment.together()
        expected = self._environment.expected_rows()
        waiting = {each.query: each for each in expected}
        moved: dict[str, float] = {}
        while waiting and (passed := time.monotonic() - began) < _COMPLETE_S * busy:
            self._look()
            for name, each in list(waiting.items()):
                sink = self._seen(each)
                complete = not each.found(sink).lost
                if complete or sink.rows > before[name]:
                    moved.setdefault(name, passed)
                if complete:
                    del waiting[name]
            time.sleep(0.5)
        passed, busy = time.monotonic() - began, max(busy, _busy())
        for each in expected:
            found = each.found(self._seen(each))
            self._verdict.rows += 0 if found.lost else found.produced
            for fault in faults(each.query, found):
                self._find(fault)
            if moved.get(each.query, passed) > _PROGRESS_S * busy:
                self._find(
                    f"{each.query}: no progress within {_PROGRESS_S * busy:.0f} s after the last fault"
                )
        self._environment.files.all_found()
        drift_ms = self._drift_ms()
        self._verdict.comparisons += 1
        slowest = max(moved.values(), default=0)
        rows = sum(each.rows for each in expected)
        times = f"all moved in {slowest:.0f} s, all there in {passed:.0f} s (of an idle machine: {passed / busy:.0f} s)"
        self._say(f"comparison {self._verdict.comparisons}: {rows:,} rows; drift {drift_ms:.0f} ms; {times}")

    def _seen(self, expected: ExpectedRows) -> Sink:
        """Returns the sink with its present rows."""
        sink = self._sinks.setdefault(expected.sink, Sink(expected.sink))
        sink.look()
        return sink

    def _drift_ms(self) -> float:
        """Returns the greatest drift (ms) since the previous comparison. A drift above the limit is a finding."""
        now = now_ms()
        self._rows.look()
        self._group.look()  # the drift of rows is computed from the entries published when they were recorded
        seen = self._rows.seen()
        found = verdict.drifts(seen, self._group.published, self._since_ms, MAX_DRIFT_MS, DISORDER_MS)
        for result in found:
            if result.met is False:
                kept = self._environment.folder / f"drift-{self._verdict.comparisons + 1}.parquet"
                pq.write_table(seen.sort_by("recorded_at"), kept)
                self._find(
                    f"{result.work}: {result.figure:g} ms, allowed are {MAX_DRIFT_MS} ms; the rows are in {kept.name}"
                )
        self._rows, self._since_ms = CollectedRows(self._environment.split_watermarks), now
        return max(result.figure for result in found)

    def _look(self, every_s: float = _LOOK_S) -> None:
        now = time.monotonic()
        if now - self._looked_at < every_s:
            return
        self._looked_at = now
        self._environment.check()
        self._group.look()
        if now - self._rows_looked_at > _ROWS_S:
            self._rows_looked_at = now
            self._rows.look()
        for ending, finding in self._endings.new():
            self._say(ending)
            if finding:
                self._find(finding)
        for name, driver in self._environment.drivers.items():
            if not self._disruptions.is_out(name) and not driver.running:
                self._find(f"the driver program '{name}' has ended by itself:\n{driver.last_words()}")
                driver.start()

    def _happened(self, what: str) -> None:
        self._endings.happened(what)
        self._say(what)

    def _find(self, finding: str) -> None:
        self._verdict.findings.append(f"{self._passed_s:.0f} s: {finding}")
        self._say(f"FINDING {finding}")

    def _say(self, what: str) -> None:
        self._tell(f"{self._passed_s:7.1f} s  {what}")

    @property
    def _passed_s(self) -> float:
        return time.monotonic() - self._began


def _busy() -> float:
    """Returns the factor by which this machine is overloaded, at least 1.

    Time limits, which hold for an idle machine, are multiplied by it.
    """
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1) / _PROCESSES_OF_A_CORE)


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True)
        yield kept
        return
    with temporary_folder("flip27-chaos-") as removed:
        yield Path(removed)
