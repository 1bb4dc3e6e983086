"""Every benchmark runs at a size that takes seconds.

The tests check that it has figures, not how fast anything is.
"""

from __future__ import annotations

import dataclasses
import errno
import io
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

import flip27_stream
from benchmarks import (
    ceiling,
    columns,
    files,
    layers,
    memory,
    read_speed,
    record_shapes,
    small_batches,
    start,
)
from benchmarks.planning import cpu, group, latest_offset, with_broker
from benchmarks.support import processes
from benchmarks.support.command import Measure, run
from benchmarks.support.environment import Environment, Sizes
from benchmarks.support.folders import temporary_folder
from benchmarks.support.results import Result, at_least, at_most, table
from benchmarks.support.turns import Pairs, take_turns
from flip27_stream.testing import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = Sizes(records=400, pairs=1, warm_up=0, batches=1, many=5, splits=20, files=50, year_files=6, shapes=1)


def test_contenders_take_turns_in_alternating_order() -> None:
    calls: list[str] = []

    def contender(name: str, seconds: Iterator[float]) -> float:
        calls.append(name)
        return next(seconds)

    a, b = iter([9.0, 4.0, 2.0]), iter([9.0, 2.0, 2.0])
    seconds = take_turns(
        {"a": lambda: contender("a", a), "b": lambda: contender("b", b)}, rounds=2, warm_up=1
    )
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert seconds == {"a": [4.0, 2.0], "b": [2.0, 2.0]}


def test_the_figure_is_the_median_of_the_ratios_of_pairs() -> None:
    pairs = Pairs(beside=[6.0, 9.0, 1.0], ours=[2.0, 1.0, 1.0])
    assert pairs.speed == [3.0, 9.0, 1.0]
    assert statistics.median(pairs.time) == pytest.approx(1 / 3)
    result = Result("work", "", "", pairs.speed, target=at_least(3))
    assert (result.figure, result.met) == (3.0, True)


@pytest.mark.parametrize(
    ("figure", "least", "most"), [(2.99, False, True), (3.0, True, True), (3.01, True, False)]
)
def test_a_mark_is_met_at_its_limit(figure: float, least: bool, most: bool) -> None:
    assert (at_least(3).met_by(figure), at_most(3).met_by(figure)) == (least, most)


def test_cpu_time_is_read_again_when_a_process_ends_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a process that ends passes to its parent, so that it would be missed or counted twice."""
    spark, planner = 10, 11
    running = iter([[spark, planner], [spark, planner], [spark], [spark], [spark]])
    now: list[list[int]] = []

    def below(pid: int) -> list[int]:
        if pid != spark:
            now.append(next(running))
        return [process for process in now[-1] if process != pid]

    monkeypatch.setattr(processes, "below", below)
    monkeypatch.setattr(processes, "_is_java", lambda pid: pid == spark)
    monkeypatch.setattr(
        processes, "_own", lambda pid: [5.0] if pid == spark else []
    )  # the planner has just ended
    monkeypatch.setattr(
        processes, "_reaped", lambda pid: [2.0 * (planner not in now[-1])] if pid == spark else []
    )
    assert processes.cpu_time(None) == (0.0, 0.0, 5.0, 2.0)
    assert next(running, None) is None, "it looked again"


def test_a_planner_that_has_just_ended_is_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has ended, and for which its parent has not waited, has no command line to recognise it by."""
    spark, daemon, worker, planner = 10, 11, 12, 13
    tree = {spark: [daemon, worker, planner], daemon: [worker]}
    lines = {daemon: "python\0-m\0pyspark.daemon", worker: "", planner: ""}
    monkeypatch.setattr(processes, "below", lambda pid: tree.get(pid, [spark, *tree[spark]]))
    monkeypatch.setattr(processes, "_is_java", lambda pid: pid == spark)
    monkeypatch.setattr(processes, "read_or_empty", lambda path: lines[int(path.split("/")[2])])
    monkeypatch.setattr(processes, "_own", lambda pid: [float(pid)])
    monkeypatch.setattr(processes, "_reaped", lambda pid: [])
    assert processes.cpu_time(None) == (0.0, daemon + worker, spark, planner)


def test_the_start_of_the_planner_is_no_time_of_a_row() -> None:
    used = processes.CpuTime(broker=1.0, workers=2.0, jvm=3.0, planner=9.0)
    assert used.for_rows == 6.0
    assert used.per_row(1_000_000) == "broker 1.00, workers 2.00, jvm 3.00 µs; planner 9.0 s"


@pytest.mark.parametrize(
    ("module", "described"),
    [
        ("benchmarks", "Runs benchmarks one after the other, and prints one table"),
        ("benchmarks.columns", "Measures columns of the user's schema"),
    ],
)
def test_the_help_of_a_benchmark_says_what_it_measures_and_with_which_sizes(
    module: str, described: str
) -> None:
    asked = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    shown = " ".join(asked.stdout.split())
    assert shown.startswith(f"usage: python -m {module} [-h]")
    assert described in shown
    for size in dataclasses.fields(Sizes):
        assert f"{size.metadata['help']} ({size.default})" in shown


@pytest.mark.parametrize(
    "module", ["kinesis", "pulsar", "planning.scale", "planning.table", "mutated_bytes", "soak", "chaos"]
)
def test_every_argument_of_a_command_has_a_meaning(module: str) -> None:
    name = f"benchmarks.{module}"
    asked = subprocess.run(
        [sys.executable, "-m", name, "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert asked.stdout.startswith(f"usage: python -m {name} ")
    arguments = re.findall(r"^  (\S.*(?:\n {4,}.*)*)", asked.stdout, re.MULTILINE)
    assert len(arguments) > 1
    assert [line for line in arguments if not re.search(r"\S(?: {2,}|\n +)\S", line)] == []


def test_a_benchmark_refuses_a_size_that_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run([], ["--pairs", "few"])
    assert "expected a whole number, not 'few'" in capsys.readouterr().err


def test_a_benchmark_keeps_its_figures_when_its_folder_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planning process may write to its table while a benchmark removes the folder. The benchmark goes on."""

    def written_to(path: str, **_: object) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty", path)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as patched, temporary_folder() as table:
        (Path(table) / "_delta_log").mkdir()
        patched.setattr(os, "rmdir", written_to)
    assert Path(table).parent == tmp_path


@pytest.mark.long
def test_benchmarks_of_planning_run_without_a_broker() -> None:
    assert len(_run(cpu.measure, Environment(TINY))) == 11
    assert len(_run(group.measure, Environment(TINY))) == 1


def test_layers_are_measured_without_a_broker() -> None:
    assert len(_run(layers.measure_without_broker, Environment(TINY))) == 16


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("measure", "lines"),
    [
        pytest.param(read_speed.measure, 4, id="read_speed"),
        pytest.param(record_shapes.measure, 2, id="record_shapes"),
        pytest.param(columns.measure, 3, id="columns"),
        pytest.param(ceiling.measure, 1, id="ceiling"),
        pytest.param(small_batches.measure, 3, id="small_batches"),
        pytest.param(start.measure, 1, id="start"),
        pytest.param(with_broker.measure, 3, id="planning"),
        pytest.param(latest_offset.measure, 2, id="latest_offset"),
        pytest.param(memory.measure, 14, id="memory"),
        pytest.param(files.measure, 23, id="files"),
        pytest.param(layers.measure, 19, id="layers"),
    ],
)
def test_each_benchmark_has_its_figures(measure: Measure, lines: int, environment: Environment) -> None:
    assert len(_run(measure, environment)) == lines


@pytest.fixture(scope="module")
def environment(spark: SparkSession, broker: KafkaBroker) -> Iterator[Environment]:
    session = spark.newSession()
    flip27_stream.register(session)
    with Environment(TINY, session, broker) as opened:
        yield opened


def _run(measure: Measure, environment: Environment) -> list[Result]:
    """Runs a benchmark and returns its results. Each has a figure above zero and a line in the printed table."""
    results = list(measure(environment))
    assert all(result.figure > 0 for result in results)
    console = Console(width=240, file=io.StringIO())
    console.print(table(results, "tiny"))
    assert isinstance(console.file, io.StringIO)
    assert all(result.work in console.file.getvalue() for result in results)
    return results
