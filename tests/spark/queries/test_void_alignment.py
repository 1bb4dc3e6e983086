"""The planning process, ``StatusListener`` and ``status`` warn once of mistakes that make alignment useless.

Coordinators and tables are real; Spark's progress is made as Spark makes it. No JVM.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from flip27_stream.api import RecordTimestampAssigner
from flip27_stream.errors import ImplausibleEventTimeError
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.spark.execution.event_times import EventTimeObserver, ImplausibleEventTimes
from tests.spark.queries.support.query_in_spark import InSpark, iso
from tests.spark.support.driven_query import DrivenQuery
from watermark_alignment.__main__ import main
from watermark_alignment.event_time_checks import wrong_unit

Make = Callable[..., DrivenQuery]

IN_2026 = 1_790_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[str], list[str]]:
    def messages(logger: str = "watermark_alignment") -> list[str]:
        return [
            r.getMessage()
            for r in caplog.records
            if r.name.startswith(logger) and r.levelno == logging.WARNING
        ]

    return messages


Warned = Callable[..., list[str]]


def logs(*times: int | None) -> dict[str, list[int | None]]:
    return {"a": list(times), "b": list(times)}


STEADY = logs(*range(1_000_000, 1_000_100))


@pytest.mark.parametrize(("delay", "is_told"), [(10, True), (15, True), (16, False), (1000, False)])
def test_a_delay_up_to_max_drift_is_warned_of(make: Make, warned: Warned, delay: int, is_told: bool) -> None:
    """The listener warns once if the delay of withWatermark is not longer than max-drift plus max-out-of-orderness,
    which are 10 ms and 5 ms here. It warns after the third batch.
    """
    query = InSpark(make(STEADY, **{"scan.watermark.max-out-of-orderness": "5 ms"}), delay)
    for _ in range(3):
        query.step()
    told = warned()
    assert len(told) == is_told
    for warning in told:
        assert f"The delay of withWatermark in query 'counts' is {delay}ms." in warning
        assert "max-drift (10ms) + max-out-of-orderness (5ms)" in warning
        assert "Make the delay longer than 15ms" in warning
    for _ in range(3):
        query.step()
    assert len(warned()) == is_told, "once"


def test_a_watermark_from_the_checkpoint_does_not_reveal_the_delay(make: Make, warned: Warned) -> None:
    """A watermark from the checkpoint of a restarted query gives no warning about the delay. It follows from records
    that this listener has not heard of.
    """
    query = InSpark(make(STEADY), 1000)
    query._watermark = 1_000_500
    for _ in range(4):
        query.step()
    assert warned() == []


@pytest.mark.parametrize("shift", [1, 3_600_000, -3_600_000])
def test_a_watermark_on_another_column_is_warned_of(make: Make, warned: Warned, shift: int) -> None:
    query = InSpark(make(STEADY), 1000, lambda time: time + shift)
    if shift < 0:
        query = InSpark(
            make(logs(*range(IN_2026, IN_2026 + 100)), **{"scan.watermark.max-future": "0"}),
            1000,
            lambda t: t + shift,
        )
    for _ in range(4):
        query.step()
    [warning] = warned()
    assert (
        "withWatermark in query 'counts' uses another event time than alignment does: in batch 1" in warning
    )
    assert "scan.watermark.event-time ('timestamp')" in warning


@pytest.mark.parametrize(
    ("column", "remedy"),
    [
        (
            lambda t: t + 4 * HOUR_MS,
            "4h ahead, perhaps by a time zone. A text without a zone is in UTC",
        ),
        (lambda t: t - 11 * HOUR_MS // 2, "5h30m behind, perhaps by a time zone."),
        (
            lambda t: t // 60_000 * 60_000,
            "Spark's are rounded down to multiples of a minute. Round after withWatermark, or",
        ),
        (lambda t: t // DAY_MS * DAY_MS, "Spark's are rounded down to multiples of a day."),
        (lambda t: t + 60_000, "Let scan.watermark.event-time and withWatermark use the same event time"),
        (
            lambda t: t + 30 * HOUR_MS,
            "Let scan.watermark.event-time and withWatermark use the same event time",
        ),
    ],
    ids=["zone", "half an hour", "minutes", "days", "another", "too far for a zone"],
)
def test_the_remedy_for_another_column_names_zones_and_rounding(
    make: Make, warned: Warned, column: Callable[[int], int], remedy: str
) -> None:
    query = InSpark(
        make(logs(*range(IN_2026, IN_2026 + 100)), **{"scan.watermark.max-future": "0"}), 10**8, column
    )
    for _ in range(4):
        query.step()
    assert [remedy in warning for warning in warned() if "another event time" in warning] == [True]


def test_event_times_in_seconds_beside_a_watermark_in_milliseconds_are_explained(
    make: Make, warned: Warned
) -> None:
    """Both ranges look the same when they are printed in seconds, so the remedy says what differs."""
    times = range(IN_2026 // 1000 * 1000, IN_2026 // 1000 * 1000 + 100_000, 1000)
    query = InSpark(make(logs(*times), **{"scan.watermark.max-future": "0"}), 10**8, lambda time: time + 500)
    for _ in range(4):
        query.step()
    found = [warning for warning in warned() if "another event time" in warning]
    assert ["rounded down to multiples of a second" in warning for warning in found] == [True]


def test_a_watermark_on_another_column_with_a_similar_greatest_time_is_warned_of(
    make: Make, warned: Warned
) -> None:
    """The greatest event times of two columns can be alike, as where some records come late. The least ones differ."""
    made = make(logs(*range(IN_2026, IN_2026 + 100)), **{"scan.watermark.max-future": "0"})
    query = InSpark(made, 10_000_000, lambda time: time if time % 2 else time - 3_600_000)
    for _ in range(3):
        query.step()
    [warning] = warned()
    assert "withWatermark in query 'counts' uses another event time than alignment does" in warning


def test_event_times_beyond_max_future_are_not_taken_for_another_column(make: Make, warned: Warned) -> None:
    """Records with implausible event times that are passed on are in Spark's greatest event time, and not in what is
    observed.
    """
    times = [*range(1_000_000, 1_000_050), 4_100_000_000_000, *range(1_000_050, 1_000_100)]
    options = {"scan.watermark.implausible-event-time": "pass"}
    query = InSpark(make(logs(*times), **options), 10_000_000_000_000)
    for _ in range(16):
        query.step()
    assert any(4_100_000_000_000 in dict.fromkeys(t for _, t in rows) for rows in query.watched.query.batches)
    assert not [text for text in warned() if "another event time" in text]


@pytest.mark.parametrize(
    "column",
    [lambda t: t, lambda t: t // 1000 * 1000, lambda t: min(t, 1_000_090)],
    ids=["same", "rounded", "filter"],
)
def test_rounded_and_filtered_event_times_are_not_warned_of(
    make: Make, warned: Warned, column: Callable[[int], int]
) -> None:
    query = InSpark(make(STEADY), 2000, column)
    for _ in range(6):
        query.step()
    assert warned() == []


def test_records_without_any_event_time_are_warned_of(
    make: Make, warned: Warned, capsys: pytest.CaptureFixture[str]
) -> None:
    """If no record has an event time, the planning process, the listener and ``status`` warn of it."""
    query = InSpark(make(logs(*[None] * 50)), 1000)
    for _ in range(3):
        query.step()
    for logger in ("flip27_stream.spark.reporting", "watermark_alignment"):
        [warning] = warned(logger)
        assert (
            "scan.watermark.event-time 'timestamp' gives no event time for any of the 10 records of source "
            in warning
        )
        assert not re.search(r"source [0-9a-f]{8}-[0-9a-f]{16}", warning), "an id is no name"
    assert main(["status", str(query.watched.query.table)]) == 0
    assert "gives no event time for any of the 10 records" in " ".join(capsys.readouterr().out.split())


def test_some_records_without_an_event_time_are_not_warned_of(make: Make, warned: Warned) -> None:
    query = InSpark(make(logs(None, 1_000_000, None, 1_000_001, *[None] * 30)), 1000)
    for _ in range(4):
        query.step()
    assert warned() == [] == warned("flip27_stream.spark.reporting")


def test_a_split_without_any_event_time_is_warned_of(
    make: Make, warned: Warned, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the records of a topic have no event time, and those of another topic have one, a warning names a split."""
    world: dict[str, list[int | None]] = {"a": list(range(1_000_000, 1_000_400)), "b": [None] * 400}
    query = InSpark(make(world), 1000)
    for _ in range(3):
        query.step(limit=400)
    for logger in ("flip27_stream.spark.reporting", "watermark_alignment"):
        [warning] = warned(logger)
        assert "'timestamp' gives no event time for any of " in warning
        assert "records of split b of source " in warning
    assert main(["status", str(query.watched.query.table)]) == 0
    assert "records of split b of source" in " ".join(capsys.readouterr().out.split())


def test_seconds_read_as_milliseconds_are_warned_of(make: Make, warned: Warned) -> None:
    made = make(logs(*range(IN_2026 // 1000, IN_2026 // 1000 + 50)))
    made.clock.advance(IN_2026)
    query = InSpark(made, 1000)
    for _ in range(3):
        query.step()
    for logger in ("flip27_stream.spark.reporting", "watermark_alignment"):
        [warning] = warned(logger)
        assert "Event times are 1,000 times too small: 1970-01-21 " in warning
        assert "seconds that are read as milliseconds: set scan.watermark.event-time.unit to 's'" in warning


def test_several_units_in_one_source_are_warned_of_without_a_unit(make: Make, warned: Warned) -> None:
    """One unit cannot be right for all records, so the warning names none."""
    times = [at // 1000 if at % 2 else at for at in range(IN_2026, IN_2026 + 50)]
    made = make(logs(*times))
    made.clock.advance(IN_2026)
    query = InSpark(made, 1000)
    for _ in range(12):
        query.step()
    [warning] = [text for text in warned() if "times too" in text]
    assert "Some event times are 1,000 times too small: 1970-01-21 " in warning
    assert "event-time.unit" not in warning


@pytest.mark.parametrize(("unit", "factor"), [("us", 1000), ("ns", 1_000_000)])
@pytest.mark.parametrize("policy", ["skip", "pass"])
def test_shorter_units_read_as_milliseconds_are_warned_of(
    make: Make, warned: Warned, unit: str, factor: int, policy: str
) -> None:
    """Microseconds or nanoseconds that are read as milliseconds give a warning that names the right unit. Such event
    times are beyond max-future, so no plan uses them.
    """
    made = make(
        logs(*range(IN_2026 * factor, IN_2026 * factor + 50)),
        **{"scan.watermark.implausible-event-time": policy},
    )
    made.clock.advance(IN_2026)
    query = InSpark(made, 1000, lambda time: IN_2026)
    for _ in range(3):
        query.step()
    [warning] = warned("flip27_stream.spark.reporting.recorder")
    assert f"set scan.watermark.event-time.unit to '{unit}'" in warning


@pytest.mark.parametrize(
    ("unit", "time", "steps"),
    [
        ("ms", IN_2026, None),
        ("ms", 1000, None),
        ("ms", 0, None),
        ("ms", IN_2026 + 400 * DAY_MS, None),
        ("ms", IN_2026 // 1000, "s"),
        ("ms", IN_2026 // 10**6, None),
        ("s", IN_2026 * 1000, "ms"),
        ("s", IN_2026 * 10**9, "ns"),
        ("us", IN_2026 // 1000, "ms"),
        ("us", IN_2026 // 10**6, "s"),
        ("ns", IN_2026 // 10**9, "s"),
    ],
)
def test_the_unit_is_found_by_the_factor(unit: str, time: int, steps: str | None) -> None:
    warning = str(wrong_unit("clicks", "/t", unit, [time], IN_2026 + DAY_MS))
    assert re.findall(r"set scan\.watermark\.event-time\.unit to '(\w+)'", warning) == [steps] * (
        steps is not None
    )


@pytest.mark.parametrize("others", [[0], [0, 86_400_000]])
def test_a_zero_does_not_hide_a_wrong_unit(others: list[int]) -> None:
    """Some records have 0 where they have no time."""
    warning = str(wrong_unit("clicks", "/t", "ms", [*others, IN_2026 // 1000], IN_2026 + DAY_MS))
    assert "Event times are 1,000 times too small" in warning
    assert "set scan.watermark.event-time.unit to 's'" in warning
    assert wrong_unit("clicks", "/t", "ms", [*others, IN_2026], IN_2026 + DAY_MS) is None


@pytest.mark.parametrize(
    ("times", "is_told"),
    [
        ([5, 100], True),
        ([IN_2026 // 60_000], True),  # minutes
        ([100, IN_2026], False),
        ([IN_2026 - 41 * 365 * DAY_MS], False),  # a real time of 1985
    ],
)
def test_numbers_that_are_no_times_are_warned_of(times: list[int], is_told: bool) -> None:
    """A counter, such as an offset, is read as a time in January 1970, and no unit makes a time of it."""
    warning = wrong_unit("clicks", "offset", "ms", times, IN_2026)
    assert (warning is not None and "Event times are in January 1970: 1970-01-01 " in warning) == is_told
    assert wrong_unit("clicks", "offset", "ms", times[:1], times[0]) is None, (
        "the clock may be there, in a test"
    )


@pytest.mark.parametrize(
    ("event_time", "is_column"), [("/t", False), ("times:of", False), ("timestamp", True)]
)
def test_the_unit_of_a_timestamp_column_is_not_set(event_time: str, is_column: bool) -> None:
    """The unit of a timestamp column cannot be set, so the warning about a column says what to do there."""
    warning = str(wrong_unit("clicks", event_time, "ms", [IN_2026 // 1000], IN_2026))
    assert ("A timestamp column has a unit of its own" in warning) == is_column


def observed(*documents: bytes | None, unit: str | None = None, until: int | None = None) -> dict[str, Any]:
    """Returns the statistics that a task reports of JSON documents."""
    records = pa.record_batch({"value": pa.array(documents, pa.binary())})
    assigner = timestamp_assigner("/time", records.schema, unit=unit)
    observer = EventTimeObserver("clicks-0", assigner, until, ImplausibleEventTimes.FAIL)
    observer.observe(records, None, None)
    return observer.statistics()


@pytest.mark.parametrize(
    ("document", "sample"),
    [
        (
            b'{"Time": 5, "user": {"name": "Ada"}}',
            "The top-level keys of one of these records: 'Time', 'user'.",
        ),
        (
            b'{"time": "2 May"}',
            "The top-level keys of one of these records: 'time'. "
            "At '/time' it has a text that is not a date and time in a known form.",
        ),
        (b'[{"time": 5}]', "The value of one of these records is JSON, but not an object: an array."),
        (b"secret", "The value of one of these records is not JSON."),
        (None, "The value of one of these records is null."),
    ],
)
def test_a_record_without_an_event_time_is_described_without_its_values(
    document: bytes | None, sample: str
) -> None:
    seen = observed(document, b'{"time": 7}')
    assert (seen["untimed"], seen["sample"]) == (1, sample)


def test_an_implausible_event_time_names_the_factor() -> None:
    with pytest.raises(ImplausibleEventTimeError, match=r"Divided by 1,000 it is 2026-.*event-time\.unit"):
        observed(b'{"time": %d}' % (IN_2026 * 1000), until=IN_2026 + DAY_MS)
    with pytest.raises(
        ImplausibleEventTimeError, match=r"Divided by 1,000 it is 1995-01-01.*event-time\.unit"
    ):
        observed(b'{"time": 788918400000000}', until=IN_2026 + DAY_MS)
    with pytest.raises(ImplausibleEventTimeError, match=r"1,000,000,000 times too great .*unit to 'ns', and"):
        observed(b'{"time": %d}' % (IN_2026 * 10**6), unit="s", until=IN_2026 + DAY_MS)


def test_an_implausible_timestamp_has_no_unit_that_can_be_set() -> None:
    """The option is refused for timestamps: of a column, and of the system that has the records."""
    times = pa.array([IN_2026 * 1000])
    column = pa.record_batch({"at": times.cast(pa.timestamp("ms"))})
    assigners = {"column": timestamp_assigner("at", column.schema), "system": RecordTimestampAssigner()}
    for name, assigner in assigners.items():
        observer = EventTimeObserver("clicks-0", assigner, IN_2026 + DAY_MS, ImplausibleEventTimes.FAIL)
        with pytest.raises(ImplausibleEventTimeError, match=r"Divided by 1,000 it is 2026-") as failed:
            observer.observe(column, times if name == "system" else None, None)
        assert "event-time.unit" not in str(failed.value), name
        assert "which have their own unit: correct the program that writes them" in str(failed.value), name


@pytest.mark.parametrize(("unit", "factor"), [("s", 0.001), ("ms", 1), ("us", 1000), ("ns", 1_000_000)])
def test_integers_at_a_pointer_have_the_unit_of_the_option(unit: str, factor: float) -> None:
    """The unit applies to integers at a JSON pointer, and not to ISO texts. Documents that Arrow parses at once and
    those that Python parses give the same event times.
    """
    number = b'{"time": %d}' % int(IN_2026 * factor)
    text = b'{"time": "%s"}' % iso(IN_2026).encode()
    for documents in ((number,), (number, text)):
        seen = observed(*documents, unit=unit)
        assert (seen["min_event_time"], seen["max_event_time"]) == (IN_2026, IN_2026)
