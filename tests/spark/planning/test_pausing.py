"""Splits of a source without positions by event time are paused by what its tasks report (FLIP-217). No JVM."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flip27_stream.errors import AlignmentError
from flip27_stream.spark.execution import task
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.reporting import report_sender
from flip27_stream.spark.reporting import reporting_splits as reporting
from flip27_stream.spark.reporting.report_channel import ReportAddress
from flip27_stream.spark.reporting.reports import TaskReport
from flip27_stream.spark.source_spec import Driver
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.memory_source import LogEnumerator, MemorySource, MemoryWorld
from watermark_alignment.table.maintenance import Maintenance

ALLOW = "scan.watermark.alignment.allow-unaligned-source-splits"
Make = Callable[..., DrivenQuery]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def query(logs: dict[str, list[int | None]], **options: str) -> DrivenQuery:
        world = MemoryWorld(logs)
        return DrivenQuery(
            world, tmp_path / "table", source=MemorySource(world, enumerator=LogEnumerator), options=options
        )

    return query


def test_a_split_that_got_ahead_waits_until_the_others_come_near(make: Make) -> None:
    """AS-01 adapted: a split is paused after it got ahead. Before, it gets ahead by at most what one batch reads,
    which is two rows here.
    """
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


def test_reported_event_times_survive_a_restart(make: Make) -> None:
    """AS-12 adapted: a split that is ahead stays paused after a restart, because the offset has the event times of
    all reports that came before it was written.
    """
    query = make({"slow": [100, 101, 102, 103, 104], "fast": [100, 150, 200]})
    query.step(2)
    query.step(2)
    query.step(1)
    query.restart()
    assert query.step(2) == [("slow", 103), ("slow", 104)]


def deaf(query: DrivenQuery) -> None:
    """Gives the query a driver that cannot listen for reports."""
    query.spec = replace(query.spec, driver=Driver("host.invalid", "host.invalid", 2))
    query.coordinator = SourceCoordinator(query.spec, query.clock)


def test_as_18_without_reports_it_cannot_be_aligned(make: Make) -> None:
    """AS-18: a query whose driver cannot listen for reports fails, unless an option allows unaligned splits."""
    for allowed in ("true", "false"):
        query = make({"a": [1], "b": [10_000]}, **{ALLOW: allowed})
        deaf(query)
        if allowed == "true":
            assert query.step() == [("a", 1), ("b", 10_000)]
        else:
            with pytest.raises(AlignmentError, match=ALLOW):
                query.step()


def test_a_driver_that_cannot_listen_tries_again(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """A driver that cannot listen for reports tries again later, and splits are aligned from then on. The warning is
    logged once. Splits that are read unaligned meanwhile are in the table, without a watermark.
    """
    query = make({"slow": [100, 101, 102, 103], "fast": [100, 150, 200, 250]}, **{ALLOW: "true"})
    deaf(query)
    assert query.step(2) == [("fast", 100), ("slow", 100)]
    assert query.step(2) == [("fast", 150), ("slow", 101)]
    query.coordinator._readers._driver = Driver("127.0.0.1", "127.0.0.1", 2)
    query.clock.advance(10_001)
    assert query.step(2) == [("fast", 200), ("slow", 102)], "nothing is known of them yet"
    assert query.step(2) == [("slow", 103)]
    query.step(2)
    query.coordinator.close()
    rows = {(row["batch"], row["split"]): (row["status"], row["watermark"]) for row in query.rows()}
    assert rows[1, "fast"] == ("ACTIVE", None)
    assert rows[4, "fast"][0] == "PAUSED"
    assert len([m for m in caplog.messages if "Tasks cannot report to host.invalid" in m]) == 1
    assert len([m for m in caplog.messages if "2 splits of 'memory' are read unaligned" in m]) == 1


def without_reports_of(split: str, monkeypatch: pytest.MonkeyPatch) -> None:
    send = report_sender.send_report

    def lossy(address: ReportAddress, report: TaskReport) -> bool:
        return all(s.split != split for s in report.splits) and send(address, report)

    monkeypatch.setattr(task, "send_report", lossy)


def go_on(query: DrivenQuery, limit: int, seconds: int) -> list[tuple[str, int | None]]:
    """Returns the rows that the query reads in ``seconds``, with a plan in each of them."""
    rows = []
    for _ in range(seconds):
        query.clock.advance(1000)
        while batch := query.step(limit):
            rows += batch
    return rows


def test_a_query_without_reports_reads_little_and_then_fails(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query without reports fails only after enough batches and enough time. Until then it reads little: one batch
    after a pause of 1 s, 2 s, 4 s, and so on up to 30 s.
    """
    monkeypatch.setattr("flip27_stream.spark.execution.task.send_report", lambda *_: False)
    query = make({"a": [*range(1, 100)], "b": [10_000] * 100})
    for _ in range(reporting.SILENT_BATCHES):
        assert query.step(2)
    assert query.step(2) is None, "it waits before it reads more of which nobody tells"
    rows = go_on(query, 2, reporting.SILENT_MS // 1000)
    assert len(rows) == 2 * len([1, 3, 7, 15, 31, 61, 91]), "after 1 s, 2 s, 4 s ... 30 s, 30 s"
    query.clock.advance(1000)
    with pytest.raises(
        AlignmentError, match=r"tasks sent no report on split a in 10 batches .* over more than 120 s"
    ):
        query.step(2)


def test_two_batches_without_reports_do_not_fail_a_query_and_three_do(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query fails after three batches without reports, and not after two, however much time passes between
    them.
    """
    monkeypatch.setattr("flip27_stream.spark.execution.task.send_report", lambda *_: False)
    query = make({"a": [*range(1, 10)]})
    for _ in range(reporting.SILENT_BATCHES):
        assert query.step(1)
        query.clock.advance(3_600_000)
    with pytest.raises(AlignmentError, match="tasks sent no report on split a in 3 batches"):
        query.step(1)


def test_a_split_without_reports_does_not_run_ahead(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """I3: a split without reports is read rarely, and then fails the query, although reports of another split
    arrive.
    """
    without_reports_of("fast", monkeypatch)
    query = make({"slow": [*range(90)], "fast": [*range(0, 9000, 100)]})
    for _ in range(reporting.SILENT_BATCHES):
        assert query.step(2) != []
    assert query.step(2) == [("slow", 3), ("slow", 4)]
    query.clock.advance(1000)
    assert query.step(2) == [("fast", 300), ("slow", 5)]
    assert query.step(2) == [("slow", 6), ("slow", 7)]
    query.clock.advance(reporting.SILENT_MS)
    with pytest.raises(AlignmentError, match="tasks sent no report on split fast in 4 batches"):
        query.step(2)


def test_a_network_that_works_again_is_noticed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage of a minute, in which reports of a split are lost, does not fail the query. The split is aligned
    again after its first report.
    """
    query = make({"slow": [*range(300)], "fast": [*range(0, 3000, 100)]})
    with monkeypatch.context() as outage:
        without_reports_of("fast", outage)
        for _ in range(60):
            query.clock.advance(1000)
            assert query.step(2)
    query.clock.advance(30_000)
    assert "fast" in {split for split, _ in query.step(2) or []}
    for _ in range(20):
        query.clock.advance(60_000)
        assert {split for split, _ in query.step(2) or []} == {"slow"}


def test_only_the_split_without_reports_runs_unaligned_if_the_option_allows_it(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If an option allows unaligned splits, only the split without reports is read unaligned. The other splits
    stay aligned and are in the table.

    The split without reports holds no other split back, and is aligned again after a report.
    """
    logs: dict[str, list[int | None]] = {
        "slow": [*range(300)],
        "fast": [*range(0, 9000, 30)],
        "mute": [*range(5000, 5300)],
    }
    query = make(logs, **{ALLOW: "true"})
    monkeypatch.setattr(Maintenance, "_expire_rows", lambda self: None)  # the clock of the query is in 1970
    with monkeypatch.context() as outage:
        without_reports_of("mute", outage)
        while not query.coordinator._planner._batch_planner._unaligned:  # type: ignore[attr-defined]
            assert query.step(3) is not None
            query.clock.advance(5000)
        for _ in range(20):
            batch = query.step(3)
            assert batch is not None
            assert "mute" in {split for split, _ in batch}
            slow, fast = ([t for b in query.batches for s, t in b if s == name] for name in ("slow", "fast"))
            assert (fast[-1] or 0) - (slow[-1] or 0) <= 10 + 3 * 30, "the drift and what one batch reads"
    last = query.coordinator._planner._batch_planner  # type: ignore[attr-defined]
    query.step(3)
    assert query.step(3) is not None
    assert not last._unaligned
    assert {split for split, _ in query.step(3) or []} == {"slow"}, "mute is ahead, and known to be"
    query.coordinator.close()
    by_split: dict[str, list[dict[str, object]]] = {"slow": [], "fast": [], "mute": []}
    for row in query.rows():
        by_split[row["split"]].append(row)
    assert {row["status"] for row in by_split["fast"]} == {"ACTIVE", "PAUSED"}
    assert [row for row in by_split["slow"][3:] if row["watermark"] is None] == []
    assert {row["watermark"] for row in by_split["mute"][:-4]} == {None}
    assert by_split["mute"][-1]["watermark"] is not None
    assert len([m for m in caplog.messages if "1 splits of 'memory' are read unaligned" in m]) == 1


def test_lost_single_reports_are_no_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """I11: a query goes on with the event times that it knows, if every third report is lost. It reads each row
    once.
    """
    send, sent = report_sender.send_report, itertools.count()
    monkeypatch.setattr(task, "send_report", lambda *report: next(sent) % 3 > 0 and send(*report))
    logs: dict[str, list[int | None]] = {"a": [*range(20)], "b": [*range(20)]}
    query = make(logs)
    while sum(map(len, query.batches)) < 40:
        assert query.step(2) is not None
    assert sorted(row for batch in query.batches for row in batch) == sorted(
        (name, t) for name, times in logs.items() for t in times
    )
