"""Tests of ISO 8601 times in the values of options: the same texts are accepted with every version of Python."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from flip27_stream.options.iso_times import epoch_ms, parse_iso_time

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31", NOON.replace(hour=0)),
        ("2026-01-31Z", NOON.replace(hour=0)),
        ("2026-01-31T12", NOON),
        ("2026-01-31T12:00", NOON),
        ("2026-01-31 12:00:00", NOON),
        ("2026-01-31T12:00:00Z", NOON),
        ("2026-01-31t12:00:00z", NOON),
        ("  2026-01-31T12:00:00Z\n", NOON),
        ("2026-01-31T12:00:00.123Z", NOON.replace(microsecond=123_000)),
        ("2026-01-31T12:00:00.123456", NOON.replace(microsecond=123_456)),
        ("2026-01-31T12:00:00.5Z", NOON.replace(microsecond=500_000)),
        ("2026-01-31T12:00:00.123456789+00:00", NOON.replace(microsecond=123_456)),
        ("2026-01-31T12:30+05:30", NOON.replace(hour=7)),
        ("2026-01-31T07:00:00-05:00", NOON),
        ("2026-01-31T12:00:01+00:00:01", NOON),
        ("2026-01-31T12:00:01.500000+00:00:01.500000", NOON),
        ("0001-01-01", datetime(1, 1, 1, tzinfo=timezone.utc)),
    ],
)
def test_iso_times_are_in_utc_or_in_their_zone(text: str, time: datetime) -> None:
    found = parse_iso_time(text)
    assert found == time
    assert found is not None
    assert found.tzinfo is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-02-30",
        "2026-13-01",
        "0000-01-01",
        "2026-1-31",
        "2026-01-31T",
        "2026-01-31T12:60",
        "2026-01-31T12:00:00ZZ",
        "2026-01-31T12:00:00+24:00",
        "２026-01-31",
    ],
)
def test_other_texts_are_not_times(text: str) -> None:
    assert parse_iso_time(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "20260131",
        "2026-W05-6",
        "2026W056",
        "20260131T120000Z",
        "2026-01-31T1200",
        "2026-01-31T12:00:00,123Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12.5",
        "2026-01-31T12:00:00+0100",
        "2026-01-31T12:00:00+01",
        "2026-01-31T24:00:00",
    ],
)
def test_forms_that_only_newer_versions_of_python_know_are_not_times(text: str) -> None:
    """The value of an option means the same on each process of a query, whatever its version of Python."""
    assert parse_iso_time(text) is None


@pytest.mark.parametrize(
    ("time", "ms"),
    [
        (NOON, 1_769_860_800_000),
        (NOON.astimezone(timezone(timedelta(hours=5))), 1_769_860_800_000),
        (datetime(1970, 1, 1, 0, 0, 0, 1999, timezone.utc), 1),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, timezone.utc), -1),
    ],
)
def test_milliseconds_since_the_epoch_are_rounded_down(time: datetime, ms: int) -> None:
    assert epoch_ms(time) == ms
