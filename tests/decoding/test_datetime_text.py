"""Tests of dates and times in text: a column parsed as a whole has the values of its texts parsed one by one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.decoding.datetime_text import (
    INSTANT,
    LOCAL,
    dates,
    days,
    instants,
    local_times,
    microseconds,
)
from flip27_stream.decoding.time_forms import TimePattern, TimesInZone
from flip27_stream.errors import OptionError
from tests.decoding.support.json_cases import TEXTS

NOON = 1_709_208_000_000_000  # 2024-02-29T12:00:00Z

PARTS = [
    "2020",
    "-1",
    "-01",
    "-1-3",
    "-12-31",
    "-02-30",
    "T",
    " ",
    "03:04",
    "3:4",
    ":05",
    ":60",
    ".5",
    ".123456789",
    "Z",
]
PARTS += ["+02:00", "+02", "-0330", "+18:00", " UTC", "24:00", "0001", "9999", "10000", "\t", "z", ",5"]
TEXT = (
    st.sampled_from([*TEXTS["day"], *TEXTS["at"], *TEXTS["local"]])
    | st.datetimes().map(lambda time: time.isoformat())
    | st.datetimes().map(lambda time: f"{time} +01:00")
    | st.lists(st.sampled_from(PARTS), max_size=6).map("".join)
)


@given(st.lists(TEXT | st.none(), max_size=5))
def test_columns_of_texts_are_parsed_like_single_texts(texts: list[str | None]) -> None:
    """A column of texts has the values of its texts, also where Arrow's casts parse it.

    It raises an error if one of them is not a time.
    """
    for column, one, kind in (
        (dates, days, pa.int32()),
        (instants, lambda text: microseconds(text, zoned=True), pa.int64()),
        (local_times, lambda text: microseconds(text, zoned=False), pa.int64()),
    ):
        expected = [None if text is None else one(text) for text in texts]
        if any(number is None and text is not None for number, text in zip(expected, texts, strict=True)):
            with pytest.raises(pa.ArrowInvalid):
                column(pa.array(texts, pa.string()))
        else:
            assert column(pa.array(texts, pa.string())).view(kind).to_pylist() == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2024-02-29T12:00:00Z", NOON),
        ("2024-2-29 12", NOON),
        ("2024-02-29T14:30:15+02:30:15", NOON),
        ("2024-02-29T10:00:00 GMT-2", NOON),
        ("2024-02-29T12:00:00.0000009", NOON),
        ("2023-02-29", None),
        ("12:30", None),
        ("2024-02-29T12:00:00 Europe/Berlin", None),
        ("294247-01-10T04:00:54.775808Z", None),
    ],
)
def test_texts_are_parsed_as_instants(text: str, number: int | None) -> None:
    assert microseconds(text, zoned=True) == number


@pytest.mark.parametrize(
    ("pattern", "text", "number"),
    [
        ("dd/MM/yyyy HH:mm", "29/02/2024 12:00", NOON),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2024-02-29T14:00:00+02:00", NOON),
        ("yyyyMMddHHmmssXX", "20240229120000Z", NOON),
        ("HH:mm", "00:01", 60_000_000),
        ("dd.MM.yyyy", "1.3.2024", None),
        ("dd/MM/yyyy", "30/02/2024", None),
        ("dd/MM/yyyy", "29/02/2024 ", None),
        ("yyyy-MM-dd HH:mm:ss", "2024-02-29 12:00:60", None),
        ("yyyy-MM-dd HH", "2024-02-29 24", None),
    ],
)
def test_texts_are_parsed_by_a_pattern(pattern: str, text: str, number: int | None) -> None:
    """Texts are parsed by a pattern.

    A day that does not exist is wrong; C's ``strptime`` takes it for one of the next month.
    """
    found = TimePattern.of("timestampFormat", pattern)
    assert found.microseconds(text, zoned=True) == found.microseconds(text, zoned=False) == number
    column: Callable[[pa.DataType], pa.Array] = lambda kind: found.times(pa.array([text, None]), kind)  # noqa: E731
    if number is None:
        with pytest.raises(pa.ArrowInvalid):
            column(INSTANT)
    else:
        assert [column(kind).view(pa.int64()).to_pylist() for kind in (INSTANT, LOCAL)] == [
            [number, None]
        ] * 2


@pytest.mark.parametrize("pattern", ["EEE", "yyyy-yyyy", "yyyy-M-d", "HH:mm:ss.SSS"])
def test_unknown_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(
        OptionError, match=f"'timestampFormat': '{pattern}'. Allowed letters, each once: yyyy, MM"
    ):
        TimePattern.of("timestampFormat", pattern)


@given(st.datetimes(), st.sampled_from(["Europe/Berlin", "Asia/Kolkata", "America/New_York", "Pacific/Apia"]))
def test_times_without_an_offset_are_in_the_time_zone(time: datetime, time_zone: str) -> None:
    """A time that the clock of the zone skips is later by the length of the gap, as in Java and Python."""
    instant = time.replace(tzinfo=ZoneInfo(time_zone)).timestamp() if time.year > 1 else None
    found = TimesInZone(time_zone)
    if instant is not None:
        number = found.microseconds(time.isoformat(), zoned=True)
        assert number is not None
        assert abs(number - instant * 1_000_000) < 1_000
    assert found.microseconds(f"{time}+01:00", zoned=True) == microseconds(f"{time}+01:00", zoned=True)
    assert found.microseconds(time.isoformat(), zoned=False) == microseconds(time.isoformat(), zoned=False)


@given(st.lists(TEXT | st.none(), max_size=5))
def test_in_utc_the_texts_have_the_same_times_with_a_zone(texts: list[str | None]) -> None:
    column = pa.array(texts, pa.string())
    try:
        expected = instants(column)
    except pa.ArrowInvalid:
        with pytest.raises(pa.ArrowInvalid):
            TimesInZone("Etc/UTC").times(column, INSTANT)
    else:
        assert TimesInZone("Etc/UTC").times(column, INSTANT).equals(expected)
