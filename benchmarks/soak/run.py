"""A soak run: a broker, two queries and a load. One of the queries is killed from time to time and started again."""

from __future__ import annotations

import json
import math
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.soak import verdict
from benchmarks.soak.driver import DriverProgram
from benchmarks.soak.load import DISORDER_MS, IDLE_TIMEOUT_S, Load
from benchmarks.soak.sink import Sink
from benchmarks.soak.watch import CollectedRows, Group, Series, TableSize
from benchmarks.support.folders import temporary_folder
from benchmarks.support.results import Result
from flip27_stream.testing import KafkaBroker
from watermark_alignment.table.maintenance import ROW_RETENTION
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

STEADY, KILLED = "steady", "killed"
"""The two queries, the topics they read and the tables they write."""

_PARTITIONS = 8
_MAX_DRIFT_MS = 10_000
_SOURCE_TIMEOUT = "2 minutes"  # a killed member returns sooner, and counts until then
_RETENTION = "interval 2 minutes"  # in this time, members publish four times, and rows are read twice
_TICK_S, _LOOK_S, _TELL_S = 0.2, 2.0, 60.0
_START_S, _DRAIN_S = 180.0, 300.0


class SoakError(Exception):
    """The error for a run that cannot continue."""


@dataclass(frozen=True)
class SoakSettings:
    """The settings of a run.

    These are its length (s, from when both queries are members), the mean time (s) between kills, and the random
    seed.
    """

    seconds: float
    kill_every_s: float
    seed: int

    @property
    def kills(self) -> int:
        """The number of kills. The end of the run has no kill, since a killed query needs time to catch up."""
        return math.ceil(self.seconds / self.kill_every_s) - 1


class SoakQuery:
    """A query and the measurements of it."""

    def __init__(self, name: str, servers: str, table: str, folder: Path) -> None:
        self.name, self.sink = name, Sink(folder / name)
        options = {
            "kafka.bootstrap.servers": servers,
            "subscribe": name,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "3000",
            "scan.source.id": name,
            "scan.watermark.alignment.group": "soak",
            "scan.watermark.alignment.max-drift": f"{_MAX_DRIFT_MS} ms",
            "scan.watermark.alignment.table": table,
            "scan.watermark.max-out-of-orderness": f"{DISORDER_MS} ms",
            "scan.watermark.idle-timeout": f"{IDLE_TIMEOUT_S} s",
            "scan.watermark.alignment.source-timeout": _SOURCE_TIMEOUT,
        }
        arguments = ["-m", "benchmarks.soak.query", json.dumps(options), str(self.sink.path)]
        self.driver = DriverProgram(arguments, folder / f"{name}.log", folder)
        self.planners, self.lives = Series(), dict[int, Series]()

    def look(self, at_s: float) -> None:
        if not self.driver.running:
            raise SoakError(f"The query '{self.name}' has ended by itself:\n{self.driver.last_words()}")
        for pid, size in self.driver.planners().items():
            self.planners.add(at_s, size / 1e6)
            self.lives.setdefault(pid, Series()).add(at_s, size / 1e6)


class Soak:
    """One run. Everything that it starts is stopped when :meth:`run` returns or raises."""

    def __init__(self, settings: SoakSettings) -> None:
        self._settings = settings
        self._open = ExitStack()
        self._began = self._looked_at = self._told = 0.0
        self._together_at = 0
        self._restarts = 0

    def run(self) -> list[Result]:
        """Runs the queries, and returns the results.

        Raises:
            SoakError: A query failed or did not start.
        """
        with self._open:
            self._prepare()
            self._start()
            while (passed := self._passed()) < self._settings.seconds:
                self._load.go_on()
                if self._is_time_to_kill(passed):
                    self._kill()
                self._look()
                time.sleep(_TICK_S)
            self._load.together()
            self._wait_for_the_rest()
            for query in self._queries.values():
                query.driver.kill()
            return self._results()

    def _prepare(self) -> None:
        folder = Path(self._open.enter_context(temporary_folder("flip27-soak-")))
        broker = self._open.enter_context(KafkaBroker())
        servers = broker.bootstrap_servers
        for topic in (STEADY, KILLED):
            broker.create_topic(topic, _PARTITIONS)
        table = folder / "split_watermarks"
        self._table = SplitWatermarkTable(str(table), {})
        self._table.delta.alter.set_table_properties(
            dict.fromkeys(
                ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration", ROW_RETENTION),
                _RETENTION,
            ),
            raise_if_not_exists=False,  # the last property belongs to this project and not to Delta
        )
        self._folder, self._group, self._rows = (
            TableSize(table),
            Group(self._table),
            CollectedRows(self._table),
        )
        self._load = self._open.enter_context(
            Load(servers, (STEADY, KILLED), _PARTITIONS, self._settings.seed)
        )
        self._queries = {name: SoakQuery(name, servers, str(table), folder) for name in (STEADY, KILLED)}

    def _start(self) -> None:
        """Starts both queries, and returns when both are members at the same event time."""
        self._began = time.monotonic()
        for query in self._queries.values():
            self._open.callback(query.driver.kill)
            query.driver.start()
        for _ in range(
            2
        ):  # a member's first plan only publishes, and meanwhile the other one may have read further
            time_ms = self._load.together()
            self._wait_for_all(time_ms - DISORDER_MS - 1)
        self._together_at = time.time_ns() // 1_000_000
        self._began, self._looked_at, self._told = time.monotonic(), 0.0, 0.0

    def _wait_for_all(self, watermark: int) -> None:
        """Waits until each query has published at least ``watermark`` (ms)."""
        deadline = time.monotonic() + _START_S
        while sum(entries[-1].watermark >= watermark for entries in self._group.published.values()) < len(
            self._queries
        ):
            if time.monotonic() > deadline:
                raise SoakError(
                    f"At least one query published no watermark {watermark} within {_START_S:g} s."
                )
            self._look()
            time.sleep(_TICK_S)

    def _is_time_to_kill(self, passed: float) -> bool:
        due = (self._restarts + 1) * self._settings.kill_every_s
        return self._restarts < self._settings.kills and passed >= due

    def _kill(self) -> None:
        driver = self._queries[KILLED].driver
        driver.kill()
        driver.start()
        self._restarts += 1

    def _wait_for_the_rest(self) -> None:
        """Waits for the last records. Those that are missing after that are lost."""
        deadline = time.monotonic() + _DRAIN_S
        while time.monotonic() < deadline and any(
            query.sink.rows < sum(self._load.produced(name).values()) for name, query in self._queries.items()
        ):
            self._look()
            for query in self._queries.values():
                query.sink.look()
            time.sleep(1)

    def _look(self) -> None:
        passed = self._passed()
        if passed - self._looked_at < _LOOK_S:
            return
        self._looked_at = passed
        for query in self._queries.values():
            query.look(passed)
        self._folder.look(passed)
        self._group.look()
        if passed - self._told >= _TELL_S:
            self._told = passed
            self._rows.look()
            print(self._standing(passed), file=sys.stderr, flush=True)

    def _standing(self, passed: float) -> str:
        records = sum(sum(self._load.produced(name).values()) for name in self._queries)
        planners = ", ".join(f"{q.planners.newest:.0f} MB {name}" for name, q in self._queries.items())
        table = f"{self._folder.size.newest:.2f} MB, {self._folder.log_files.newest:.0f} files of the log"
        return (
            f"{passed / 60:4.1f} min  {records:,} records, {self._restarts} kills, {planners}, table {table}"
        )

    def _passed(self) -> float:
        return time.monotonic() - self._began

    def _results(self) -> list[Result]:
        judged = self._settings.seconds >= verdict.LONG_ENOUGH_S
        found = [verdict.restarts(self._restarts, self._settings.kills)]
        for name, query in self._queries.items():
            query.sink.look()
            found += verdict.delivered(name, query.sink.delivery(self._load.produced(name)))
        self._rows.look()
        found += verdict.drifts(
            self._rows.seen(), self._group.published, self._together_at, _MAX_DRIFT_MS, DISORDER_MS
        )
        for name, query in self._queries.items():
            found += verdict.memory(name, query.planners, query.lives, judged=judged)
        return found + verdict.table_size(self._folder, judged=judged)
