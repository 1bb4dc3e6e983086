"""Tests of the alignment options: durations, options that belong together, and values that are refused (FLIP-296)."""

from __future__ import annotations

import contextlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.errors import OptionError
from flip27_stream.options.durations import parse_duration
from flip27_stream.options.known_options import check_known
from tests.watermark_alignment.support.group_entries import entry
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.group.membership import Membership
from watermark_alignment.options import OPTIONS, AlignmentOptions
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

ALIGNMENT = "scan.watermark.alignment."
REQUIRED = {
    f"{ALIGNMENT}group": "web",
    f"{ALIGNMENT}max-drift": "5 minutes",
    f"{ALIGNMENT}table": "/delta/split_watermarks",
}
MINUTE = 60_000
HOUR = 60 * MINUTE


def _parse(more: dict[str, str]) -> AlignmentOptions:
    parsed = AlignmentOptions.parse(REQUIRED | more)
    assert parsed is not None
    return parsed


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


def test_without_a_group_alignment_is_off() -> None:
    assert AlignmentOptions.parse({}) is None
    assert AlignmentOptions.parse({"subscribe": "clicks"}) is None


def test_defaults_are_those_of_flink() -> None:
    """By default, update-interval is 1000 ms and allow-unaligned-source-splits is false (OP-03, OP-05)."""
    assert _parse({}) == AlignmentOptions(
        group="web",
        max_drift_ms=5 * MINUTE,
        table="/delta/split_watermarks",
        storage_options={},
        update_interval_ms=1000,
        source_timeout_ms=MINUTE,
        available_now="complete",
        allow_unaligned_source_splits=False,
        idle_timeout_ms=MINUTE,
        max_out_of_orderness_ms=0,
        max_future_ms=HOUR,
        implausible_event_time="fail",
        event_time="timestamp",
        source_id=None,
    )


def test_every_option_is_parsed() -> None:
    more = {
        f"{ALIGNMENT}update-interval": "2 s",
        f"{ALIGNMENT}source-timeout": "3 s",
        f"{ALIGNMENT}available-now": "HOLD",
        f"{ALIGNMENT}allow-unaligned-source-splits": "True",
        "scan.watermark.idle-timeout": "0",
        "scan.watermark.max-out-of-orderness": "4 s",
        "scan.watermark.max-future": "0",
        "scan.watermark.implausible-event-time": "skip",
        "scan.watermark.event-time": "/event/time",
        "scan.watermark.event-time.unit": "Seconds",
        "scan.source.id": "clicks",
    }
    assert {option.name for option in OPTIONS} == more.keys() | REQUIRED.keys()
    parsed = _parse(more)
    assert (parsed.update_interval_ms, parsed.source_timeout_ms) == (2000, 3000)
    assert (parsed.available_now, parsed.allow_unaligned_source_splits) == ("hold", True)
    assert parsed.event_time_unit == "s"
    assert (parsed.idle_timeout_ms, parsed.max_out_of_orderness_ms, parsed.max_future_ms) == (0, 4000, 0)
    assert (parsed.implausible_event_time, parsed.event_time, parsed.source_id) == (
        "skip",
        "/event/time",
        "clicks",
    )


def test_the_names_of_alignment_options_are_in_lower_case() -> None:
    assert all(option.name == option.key for option in OPTIONS)


BOTH = f"both '{ALIGNMENT}group' and '{ALIGNMENT}max-drift' must be set when configuring watermark alignment"


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({f"{ALIGNMENT}max-drift": "1min", f"{ALIGNMENT}update-interval": "1s"}, "group"),
        ({f"{ALIGNMENT}group": "g", f"{ALIGNMENT}update-interval": "1s"}, "max-drift"),
        ({f"{ALIGNMENT}update-interval": "1s"}, "group"),
        ({f"{ALIGNMENT}table.option.key": "x"}, "group"),
    ],
)
def test_op_02_and_op_03_group_and_drift_belong_together(options: dict[str, str], missing: str) -> None:
    with pytest.raises(OptionError, match=BOTH) as raised:
        AlignmentOptions.parse(options)
    assert f"'{ALIGNMENT}{missing}' is missing" in str(raised.value)


@pytest.mark.parametrize(
    "name", ["scan.watermark.idle-timeout", "scan.watermark.event-time", "scan.source.id"]
)
def test_options_without_effect_are_refused_without_a_group(name: str) -> None:
    with pytest.raises(OptionError, match=f"'{name}' has no effect without '{ALIGNMENT}group'"):
        AlignmentOptions.parse({name: "1 s"})


def test_a_group_needs_a_table() -> None:
    with pytest.raises(OptionError, match=f"'{ALIGNMENT}table' must be set: path or URI of the Delta table"):
        AlignmentOptions.parse({f"{ALIGNMENT}group": "g", f"{ALIGNMENT}max-drift": "1 s"})


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        (f"{ALIGNMENT}max-drift", "-1 ms", "Expected a duration"),
        (f"{ALIGNMENT}update-interval", "0 s", "longer than 0"),
        (f"{ALIGNMENT}update-interval", "-1 s", "Expected a duration"),
        (f"{ALIGNMENT}source-timeout", "0", "at least 1 s"),
        (f"{ALIGNMENT}source-timeout", "999 ms", "at least 1 s, and many times as long as a commit"),
        (f"{ALIGNMENT}available-now", "now", "Allowed: complete, hold"),
        (f"{ALIGNMENT}allow-unaligned-source-splits", "yes", "Allowed: true, false"),
        (f"{ALIGNMENT}group", " ", "must not be empty"),
        (f"{ALIGNMENT}table", "", "must not be empty"),
        (f"{ALIGNMENT}table", "/delta/a[1]", r"cannot write to a place with '\[' in it. Give a path without"),
        (f"{ALIGNMENT}table", "/delta/a\nb", r"with '\\n' in it. Give a path without"),
        (f"{ALIGNMENT}table", "file:///delta/a#b", "with '#' in it. Write it as %23"),
        ("scan.watermark.idle-timeout", "-1 ms", "Expected a duration"),
        ("scan.watermark.max-future", "1", "Expected a duration"),
        ("scan.watermark.implausible-event-time", "drop", "Allowed: fail, skip, pass"),
    ],
)
def test_op_04_op_05_wm_05_a_wrong_value_names_option_value_and_what_is_allowed(
    name: str, value: str, allowed: str
) -> None:
    with pytest.raises(OptionError, match=allowed) as raised:
        AlignmentOptions.parse(REQUIRED | {name: value})
    assert f"Invalid value for option '{name}': {value!r}" in str(raised.value)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_al_20_a_member_with_the_shortest_timeout_renews_its_entry_as_often_as_it_must() -> None:
    """A member renews its entry four times in its timeout, also in the shortest one that is allowed (AL-20)."""
    shortest = _parse({f"{ALIGNMENT}source-timeout": "1 s"}).source_timeout_ms
    member = Membership(
        GroupLog(SplitWatermarkTable("nowhere", {}), "g", 0), entry("clicks", timeout_ms=shortest), lambda: 0
    )
    assert member._beat_s == shortest / 1000 / 4


def test_op_04_drift_zero_is_allowed() -> None:
    assert _parse({f"{ALIGNMENT}max-drift": "0 s"}).max_drift_ms == 0


def test_storage_options_reach_the_table_and_nothing_that_is_shown() -> None:
    parsed = _parse({f"{ALIGNMENT}table.option.aws_secret_access_key": "hunter2"})
    assert parsed.storage_options == {"aws_secret_access_key": "hunter2"}
    assert "hunter2" not in repr(parsed)
    assert pickle.loads(pickle.dumps(parsed)) == parsed


KNOWN = {option.name: option.name for option in OPTIONS} | {"startingoffsets": "startingOffsets"}
PREFIXES = ("kafka.", f"{ALIGNMENT}table.option.")


def test_known_options_and_prefixes_pass() -> None:
    check_known([*KNOWN, "kafka.bootstrap.servers", f"{ALIGNMENT}table.option.region"], KNOWN, PREFIXES)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("startingoffset", "Did you mean 'startingOffsets'?"),
        (f"{ALIGNMENT}maxdrift", f"Did you mean '{ALIGNMENT}max-drift'?"),
        ("scan.watermark.emit.strategy", "Did you mean 'scan.watermark."),
        (f"{ALIGNMENT}table.option.", f"Did you mean '{ALIGNMENT}table'?"),
        ("kafka.", "Known: "),
        ("zzz", "startingOffsets"),
    ],
)
def test_op_01_an_unknown_option_is_named_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(OptionError, match=f"Unknown option '{name}'") as raised:
        check_known({name: "a secret", "startingoffsets": "earliest"}, KNOWN, PREFIXES)
    assert hint in str(raised.value)
    assert "a secret" not in str(raised.value)
