"""What is observed of the records of a source, batch by batch. No JVM."""

from __future__ import annotations

from flip27_stream.spark.reporting.observations import Observations
from flip27_stream.spark.reporting.reports import SplitReport

NOW = 1_800_000_000_000


def report(split: str, rows: int, untimed: int) -> SplitReport:
    time = None if rows == untimed else NOW - 1000
    return SplitReport(split, 0, rows, rows=rows, untimed=untimed, min_event_time=time, max_event_time=time)


def warnings(*batches: list[SplitReport]) -> list[str]:
    observations = Observations("/time", "ms")
    for batch in batches:
        observations.after(batch)
    return [text for _, text in observations.after([]).mistakes("clicks", NOW)]


def test_a_split_whose_records_have_no_event_times_is_named_however_small_its_batches_are() -> None:
    batch = [report("clicks-0", 40, 40), report("clicks-1", 40, 0)]
    assert warnings(batch, batch) == []
    (warning,) = warnings(batch, batch, batch)
    assert "no event time for any of 120 records of split clicks-0 of source clicks" in warning


def test_two_splits_without_event_times_are_both_counted() -> None:
    batch = [report("clicks-0", 60, 60), report("clicks-1", 60, 60), report("clicks-2", 60, 0)]
    (warning,) = warnings(batch, batch)
    assert "split clicks-0" in warning


def test_records_without_event_times_between_others_are_no_mistake() -> None:
    untimed, mixed = [report("clicks-0", 60, 60), report("clicks-1", 9, 0)], [report("clicks-0", 60, 59)]
    assert warnings(untimed, mixed, untimed, mixed, untimed) == []
