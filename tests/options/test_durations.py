"""Tests of durations in the values of options: their spellings, and those that are refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.errors import OptionError
from flip27_stream.options.durations import parse_duration
from flip27_stream.options.kinds import DURATION_OR_MS, POSITIVE_DURATION_OR_MS

MINUTE = 60_000
HOUR = 60 * MINUTE


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("5 minutes", 5 * MINUTE),
        ("5min", 5 * MINUTE),
        ("5 m", 5 * MINUTE),
        ("300 s", 5 * MINUTE),
        ("PT5M", 5 * MINUTE),
        ("pt1h30m", 90 * MINUTE),
        ("P1DT2H3M4.5S", 26 * HOUR + 3 * MINUTE + 4500),
        ("P2W", 14 * 24 * HOUR),
        ("1 h", HOUR),
        ("250 ms", 250),
        ("2 days", 48 * HOUR),
        ("interval 5 minutes", 5 * MINUTE),
        ("INTERVAL 1 HOUR 30 MINUTES", 90 * MINUTE),
        ("1h30min", 90 * MINUTE),
        ("  1 week ", 7 * 24 * HOUR),
        ("1.5 s", 1500),
        ("PT0.5S", 500),
        ("2000 us", 2),
        ("0.25 h", 15 * MINUTE),
        ("0", 0),
        ("0 s", 0),
        ("PT0S", 0),
    ],
)
def test_durations_have_the_spellings_of_flink_spark_and_iso_8601(text: str, ms: int) -> None:
    assert parse_duration(text, "o") == ms


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "5", "300000", "-1 ms", "-5 minutes", "PT-5M", "-PT5M", "P", "PT", "PT5", "P5", "P1M"),
        *("five minutes", "5 parsecs", "1 month", "minutes", "5 min and", "1e3 s", "1,5 s", "1..5 s", "٥ s"),
        "9" * 5000 + " s",
    ],
)
def test_op_04_and_wm_05_an_error_about_a_duration_names_option_value_and_forms(text: str) -> None:
    with pytest.raises(OptionError, match="Expected a duration: a number and a unit such as") as raised:
        parse_duration(text, "scan.watermark.idle-timeout")
    assert "scan.watermark.idle-timeout" in str(raised.value)
    assert repr(text)[:200] in str(raised.value)  # a longer text is cut
    assert "PT5M" in str(raised.value)


@pytest.mark.parametrize("text", ["1.5 ms", "PT0.0001S", "1 us"])
def test_a_fraction_of_a_millisecond_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="whole number of milliseconds"):
        parse_duration(text, "o")


def test_al_18_a_duration_leaves_room_to_be_added_to_a_time() -> None:
    """A duration that could overflow when it is added to a time is refused, instead of clamping the sum (AL-18)."""
    assert parse_duration(f"{2**62 - 1} ms", "o") == 2**62 - 1
    with pytest.raises(OptionError, match="Expected less than 53375995583 days"):
        parse_duration(f"{2**62} ms", "o")


@given(st.integers(0, 999), st.integers(0, 999), st.integers(0, 999), st.sampled_from(["", " "]))
def test_terms_of_a_duration_are_added(hours: int, minutes: int, ms: int, gap: str) -> None:
    text = f"{hours}{gap}h {minutes}{gap}minutes {ms}{gap}ms"
    assert parse_duration(text, "o") == hours * HOUR + minutes * MINUTE + ms


@given(st.text(alphabet="0123456789 .-+PTDHMSWminterval", max_size=12))
def test_any_text_is_a_duration_or_an_option_error(text: str) -> None:
    with contextlib.suppress(OptionError):
        assert parse_duration(text, "o") >= 0


def test_a_number_without_a_unit_is_in_ms_where_an_option_allows_that() -> None:
    assert DURATION_OR_MS.parse(" 1500 ", "o") == 1500
    assert POSITIVE_DURATION_OR_MS.parse("2 s", "o") == 2000
    with pytest.raises(OptionError, match=r"'o': '0'\. It must be longer than 0\."):
        POSITIVE_DURATION_OR_MS.parse("0", "o")
