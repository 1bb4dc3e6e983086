"""A source whose splits cannot be cut by event time: paused by what its tasks report (FLIP-217). No JVM."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flip27_stream.errors import AlignmentError
from flip27_stream.spark import readers, report_channel, task
from flip27_stream.spark.coordinator import SourceCoordinator
from flip27_stream.spark.job import Driver
from flip27_stream.spark.report_channel import ReportAddress, TaskReport
from tests.spark.driven_query import Query
from tests.spark.memory_source import LogEnumerator, MemorySource, World

ALLOW = "scan.watermark.alignment.allow-unaligned-source-splits"
Make = Callable[..., Query]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def query(logs: dict[str, list[int | None]], **options: str) -> Query:
        world = World(logs)
        return Query(
            world, tmp_path / "table", source=MemorySource(world, enumerator=LogEnumerator), options=options
        )

    return query


def test_a_split_that_got_ahead_waits_until_the_others_come_near(make: Make) -> None:
    """AS-01 adapted: after the fact, by as much as a batch reads; two rows here."""
    query = make({"slow": [100, 101, 102, 103, 195], "fast": [100, 150, 200, 250]})
    assert query.step(2) == [("fast", 100), ("slow", 100)]
    assert query.step(2) == [("fast", 150), ("slow", 101)]
    assert query.step(2) == [("slow", 102), ("slow", 103)]
    assert query.step(2) == [("slow", 195)]
    assert query.step(2) == [("fast", 200), ("fast", 250)], "150 was read, and 195 is past it"


def test_pauses_are_in_the_table(make: Make) -> None:
    query = make({"slow": [100, 101, 102], "fast": [100, 150, 200]})
    for _ in range(4):
        query.step(2)
    query.coordinator.close()
    assert ("fast", "PAUSED") in {(row["split"], row["status"]) for row in query.rows()}


def test_what_was_reported_survives_a_restart(make: Make) -> None:
    """AS-12 adapted: the offset takes along what reports told before it was written."""
    query = make({"slow": [100, 101, 102, 103, 104], "fast": [100, 150, 200]})
    query.step(2)
    query.step(2)
    query.step(1)
    query.restart()
    assert query.step(2) == [("slow", 103), ("slow", 104)]


def test_as_18_without_reports_it_cannot_be_aligned(make: Make) -> None:
    """AS-18: an error, unless the user allows splits that cannot be stopped to run unaligned."""
    for allowed in ("true", "false"):
        query = make({"a": [1], "b": [10_000]}, **{ALLOW: allowed})
        query.job = replace(query.job, driver=Driver("host.invalid", "host.invalid", 2))
        query.coordinator = SourceCoordinator(query.job, query.clock)
        if allowed == "true":
            assert query.step() == [("a", 1), ("b", 10_000)]
        else:
            with pytest.raises(AlignmentError, match=ALLOW):
                query.step()


def test_reports_that_never_come_are_not_taken_for_alignment(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flip27_stream.spark.task.send_report", lambda *_: False)
    query = make({"a": [*range(1, 10)], "b": [10_000] * 10})
    for _ in range(readers._SILENT_BATCHES):
        assert query.step(2)
    with pytest.raises(AlignmentError, match="cannot report to this driver"):
        query.step(2)


def test_one_split_of_which_no_report_comes_does_not_run_away(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I3: reports of the others do not make up for it; before, its front stayed unknown, and it was read for ever."""
    send = report_channel.send_report

    def lossy(address: ReportAddress, report: TaskReport) -> bool:
        return all(split.split != "fast" for split in report.splits) and send(address, report)

    monkeypatch.setattr(task, "send_report", lossy)
    query = make({"slow": [*range(9)], "fast": [*range(0, 900, 100)]})
    for _ in range(readers._SILENT_BATCHES):
        assert query.step(2)
    with pytest.raises(AlignmentError, match="no report came of split fast in 3 batches"):
        query.step(2)


def test_a_report_that_is_lost_now_and_then_is_no_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """I11: it reads on, by what it knows."""
    send, sent = report_channel.send_report, itertools.count()
    monkeypatch.setattr(task, "send_report", lambda *report: next(sent) % 3 > 0 and send(*report))
    logs: dict[str, list[int | None]] = {"a": [*range(20)], "b": [*range(20)]}
    query = make(logs)
    while sum(map(len, query.batches)) < 40:
        assert query.step(2) is not None
    assert sorted(row for batch in query.batches for row in batch) == sorted(
        (name, t) for name, times in logs.items() for t in times
    )
