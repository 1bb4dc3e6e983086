"""Tests of the chaos run: a seed repeats its fault periods, acts are done and undone, wrong rows are found."""

from __future__ import annotations

import itertools
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from benchmarks.chaos.allowed_errors import Circumstances, Endings, fault_with
from benchmarks.chaos.disruptions import Done
from benchmarks.chaos.environment import CLICKS, VIEWS
from benchmarks.chaos.expected_rows import ExpectedRows, faults
from benchmarks.chaos.files import ParquetFolder
from benchmarks.chaos.plan import Disruption, FaultPeriod, Pace, fault_periods
from benchmarks.chaos.program import ENDINGS, Ending, Query
from benchmarks.chaos.run import Chaos, ChaosSettings
from benchmarks.chaos.schedule import Schedule
from benchmarks.soak.sink import Sink
from flip27_stream.testing import wait_until
from tests.spark.support.processes import quick_start

LINKS = ["a", "b"]


def drawn(seed: int, count: int = 40) -> list[FaultPeriod]:
    return list(itertools.islice(fault_periods(seed, LINKS, Pace()), count))


def test_a_seed_repeats_its_fault_periods() -> None:
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_fault_periods_have_every_kind_of_fault() -> None:
    """An hour of fault periods has more than 500 faults and more than 200 kills, with every kind of act.

    Two hours have as many even if a third of them is quiet.
    """
    found = drawn(3)
    hours = sum(period.seconds for period in found) / 3600
    disruptions = [disruption for period in found for disruption in period.disruptions]
    assert sum(len(period.faults) for period in found) / hours > 500
    assert sum(disruption.what.startswith("kill ") for disruption in disruptions) / hours > 200
    assert len({disruption.what for disruption in disruptions}) == 13
    assert len({turn for period in found for turn in period.turns}) == 5
    for period in found:
        times = [(e.at_s, e.at_s + e.lasts_s) for e in period.disruptions]
        times += [(e.at_s, e.at_s + e.lasts_s) for e in period.faults]
        assert all(0 <= begin <= end <= period.seconds + 1e-9 for begin, end in times)


def test_a_schedule_does_each_step_at_its_time_and_undoes_it() -> None:
    said: list[str] = []
    undone: list[str] = []
    with Schedule(said.append) as schedule:
        schedule.add(0.02, lambda: Done("second", lambda: undone.append("second")), 3600)
        schedule.add(0.01, lambda: Done("first", lambda: undone.append("first")), 0.01)
        schedule.add(0.0, lambda: None, 0.0)
        schedule.add(3600, lambda: Done("never"), 0.0)

        def over() -> bool:
            schedule.go_on()
            return undone == ["first"] and len(said) == 2

        wait_until(over, "the first act to be undone")
        assert not schedule.all_done
    assert said == ["first", "second"]
    assert undone == ["first", "second"]


def test_a_schedule_that_is_late_does_each_step() -> None:
    said: list[str] = []
    with Schedule(said.append) as schedule:
        for number in range(3):
            schedule.add(0.0, partial(Done, str(number)), 0.0)
        while not schedule.all_done:
            schedule.go_on()
    assert said == ["0", "1", "2"]


def test_a_step_that_cannot_be_undone_is_an_error() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Schedule(lambda said: None) as schedule:  # noqa: PT012
        schedule.add(0, lambda: Done("it", fail), 3600)
        schedule.go_on()


def numbers(folder: Path) -> list[int]:
    return sorted(n for path in folder.glob("[0-9]*") for n in pq.read_table(path)["number"].to_pylist())


def test_files_change_only_when_their_rows_were_found(tmp_path: Path) -> None:
    folder = ParquetFolder(tmp_path / "files")
    for _ in range(3):
        folder.write()
    assert numbers(folder.path) == list(range(folder.written)) == list(range(60))
    assert not folder.touch(0.5)
    assert not folder.remove(0.5)
    folder.all_found()
    folder.write()
    assert folder.touch(0.99)
    assert folder.remove(0.0)
    assert numbers(folder.path) == list(range(20, 80))
    folder.hide()
    folder.write()
    assert not folder.path.exists()
    assert not folder.remove(0.0)
    folder.show()
    assert numbers(folder.path) == list(range(20, 80))
    folder.empty()
    assert numbers(folder.path) == list(range(60, 80))


def test_a_comparison_counts_the_records_that_existed_when_it_began(tmp_path: Path) -> None:
    expected = ExpectedRows("q", tmp_path / "sink", {0: 2, 1: 1})
    sink = Sink(expected.sink)
    sink.look()
    assert faults("q", expected.found(sink)) == ["q: 3 rows lost of 3 (0-0: 0x, 0-1: 0x, 1-0: 0x)"]
    rows = {
        "partition": pa.array([0, 0, 1, 1, 2], pa.int32()),
        "number": pa.array([0, 2, 0, 0, 0], pa.int64()),
    }
    write_deltalake(expected.sink, pa.table(rows))
    what = "(0-1: 0x, 1-0: 2x)"
    sink.look()
    assert faults("q", expected.found(sink)) == [
        f"q: 1 rows lost of 3 {what}",
        f"q: 1 rows doubled of 3 {what}",
        f"q: 1 rows never written of 3 {what}",
    ]


NOTHING = Circumstances(anything=False, process_killed=False, remade=False)
FAULT = Circumstances(anything=True, process_killed=False, remade=False)
KILL = Circumstances(anything=True, process_killed=True, remade=False)
AWAY = Circumstances(anything=True, process_killed=False, remade=False, hidden=True)
REMADE = Circumstances(anything=True, process_killed=False, remade=True)

UNREACHABLE = "X: failed\nflip27_stream.errors.UnreachableError: No Kafka broker answered at a:1 within 20 s."
LOST = "X: failed\nflip27_stream.errors.DataLossError: a-0 lost offset 5."
CRASHED = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
RAW = "X: failed\nKeyError: 'a-0'"


@pytest.mark.parametrize(
    ("cause", "circumstances", "right"),
    [
        (UNREACHABLE, FAULT, True),
        (UNREACHABLE, NOTHING, False),
        (LOST, FAULT, False),
        (LOST, REMADE, True),
        (LOST, AWAY, True),
        (CRASHED, KILL, True),
        (CRASHED, FAULT, False),
        (RAW, KILL, False),
        (RAW, FAULT, False),
    ],
)
def test_an_ending_needs_a_name_and_a_reason(cause: str, circumstances: Circumstances, right: bool) -> None:
    ending = Ending(0, "q", ["org.apache.spark.SparkException: Job aborted", cause])
    assert (fault_with(ending, circumstances) is None) is right


def test_endings_are_read_once_and_need_a_reason_in_the_faults_before_them(tmp_path: Path) -> None:
    endings = Endings(tmp_path)
    assert list(endings.new()) == []
    path = tmp_path / ENDINGS.format("q")
    line = Ending(time.time_ns() // 1_000_000, "q", [UNREACHABLE]).to_line()
    path.write_text(line + line[:10])
    endings.happened("all is healed")
    ((_, finding),) = endings.new()
    assert finding is None
    with path.open("a") as more:
        more.write(line[10:] + Ending(time.time_ns() // 1_000_000, "q", [CRASHED]).to_line())
    first, second = endings.new()
    assert first[1] is None
    assert second[1] is not None
    assert endings.counts == {"q: UnreachableError": 2, "q: a process was killed": 1}


def test_a_query_is_written_to_a_file_and_read_back(tmp_path: Path) -> None:
    query = Query("q", "flip27_kafka", {"a": "b"}, "partition", "offset", "out", "checkpoint")
    query.write(tmp_path)
    assert Query.read(tmp_path, "q") == query


@pytest.mark.jvm
def test_a_short_fault_period_has_no_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    """One fault period and its comparison have no findings, with real brokers, a real store and a driver.

    The driver runs the two queries of the group, and not the other three, whose starts take minutes on a busy machine.
    """
    # Spark gives a planning process 10 s to start, which a slow machine may exceed if it compiles PySpark each time.
    for name, value in quick_start().items():
        monkeypatch.setenv(name, value)
    said: list[str] = []
    settings = ChaosSettings(
        0,
        seed=6,
        pace=Pace(fault_s=3, kill_s=5, stop_s=8, change_s=5),
        fault_period_s=(15, 20),
        drivers={"left": [CLICKS, VIEWS]},
    )
    found = Chaos(settings, said.append).run()
    assert found.findings == [], "\n".join(said)
    assert found.comparisons == 1
    assert found.count("kill ")
    assert found.count("fault ")


def test_every_kind_of_disruption_is_drawn() -> None:
    assert {disruption.what.split()[0] for period in drawn(1) for disruption in period.disruptions} == {
        *("kill", "stop", "hide", "touch", "remove", "compact", "checkpoint")
    }
    assert isinstance(drawn(1)[0].disruptions[0], Disruption)
