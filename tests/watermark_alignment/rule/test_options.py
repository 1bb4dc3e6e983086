"""Tests of the alignment options: options that belong together, and values that are refused (FLIP-296)."""

from __future__ import annotations

import pickle

import pytest

from flip27_stream.errors import OptionError
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
        (f"{ALIGNMENT}source-timeout", "999 ms", "at least 1 s, and many times the duration of a commit"),
        (f"{ALIGNMENT}available-now", "now", "Allowed: complete, hold"),
        (f"{ALIGNMENT}allow-unaligned-source-splits", "yes", "Allowed: true, false"),
        (f"{ALIGNMENT}group", " ", "must not be empty"),
        (f"{ALIGNMENT}table", "", "must not be empty"),
        (f"{ALIGNMENT}table", "/delta/a[1]", r"cannot write to a place with '\[' in it. Give a path without"),
        (f"{ALIGNMENT}table", "/delta\\wm", r"cannot write to a place with '\\\\' in it. Give a path"),
        (f"{ALIGNMENT}table", "file:///delta\\wm", r"cannot write to a place with '\\\\' in it. Give a"),
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
    assert member._own.beat_s == shortest / 1000 / 4


def test_op_04_drift_zero_is_allowed() -> None:
    assert _parse({f"{ALIGNMENT}max-drift": "0 s"}).max_drift_ms == 0


def test_storage_options_reach_the_table_and_nothing_that_is_shown() -> None:
    parsed = _parse({f"{ALIGNMENT}table.option.aws_secret_access_key": "hunter2"})
    assert parsed.storage_options == {"aws_secret_access_key": "hunter2"}
    assert "hunter2" not in repr(parsed)
    assert pickle.loads(pickle.dumps(parsed)) == parsed
