"""Tests of the check that all given options are known."""

from __future__ import annotations

import re

import pytest

from flip27_stream.errors import OptionError
from flip27_stream.options.known_options import check_known
from watermark_alignment.options import OPTIONS

ALIGNMENT = "scan.watermark.alignment."
KNOWN = {option.name: option.name for option in OPTIONS} | {"startingoffsets": "startingOffsets"}
PREFIXES = ("kafka.", f"{ALIGNMENT}table.option.")


def test_known_options_and_prefixes_pass() -> None:
    check_known([*KNOWN, "kafka.bootstrap.servers", f"{ALIGNMENT}table.option.region"], KNOWN, PREFIXES)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("startingoffset", "Did you mean 'startingOffsets'?"),
        (f"{ALIGNMENT}maxdrift", f"Did you mean '{ALIGNMENT}max-drift'?"),
        ("scan.watermark.idletimeout", "Did you mean 'scan.watermark.idle-timeout'?"),
        ("scan.watermark.max-drift", f"Did you mean '{ALIGNMENT}max-drift'?"),
        (f"{ALIGNMENT}table.option.", f"Did you mean '{ALIGNMENT}table.option.<name>'?"),
        (f"{ALIGNMENT}table.options.aws_region", f"Did you mean '{ALIGNMENT}table.option.<name>'?"),
        (f"{ALIGNMENT}table.aws_region", f"Did you mean '{ALIGNMENT}table.option.<name>'?"),
        (f"{ALIGNMENT}tables", f"Did you mean '{ALIGNMENT}table'?"),
        ("kafka.", "Known: "),
        ("zzz", "startingOffsets"),
    ],
)
def test_op_01_an_unknown_option_is_named_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(OptionError, match=f"Unknown option '{name}'") as raised:
        check_known({name: "a secret", "startingoffsets": "earliest"}, KNOWN, PREFIXES)
    assert hint in str(raised.value)
    assert "a secret" not in str(raised.value)


def test_an_option_of_the_sink_is_said_to_belong_to_it() -> None:
    """No option of a source is similar to ``checkpointLocation``, so the five nearest would mislead."""
    with pytest.raises(
        OptionError, match=r"^Unknown option 'checkpointLocation'\. It belongs to writeStream\.$"
    ):
        check_known({"checkpointlocation": "/c"}, KNOWN, PREFIXES)


def test_an_option_of_the_query_does_not_belong_to_a_source_in_code() -> None:
    with pytest.raises(OptionError, match=r"It is an option of a query, .* give it to readStream"):
        check_known(["scan.watermark.alignment.group"], {"subscribe": "subscribe"})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("scan.startup.mode", "here it is 'startingOffsets'."),
        ("scan.startup.specific-offsets", "here it is 'startingOffsets'."),
        ("properties.group.id", "here it is 'kafka.group.id'."),
        ("key.format", "has no counterpart here: see docs/flink.md."),
        ("scan.startup.timestamp-millis", "Did you mean 'scan.bounded.timestamp-millis'?"),
        ("properties.acks", "Known: "),
    ],
)
def test_an_option_of_flink_is_said_to_be_one(name: str, said: str) -> None:
    """Otherwise the most similar name would be that of another option, which bounds the stream. A name that the
    source has no counterpart of is an unknown name like any other.
    """
    known = {
        option.lower(): option
        for option in (
            "startingOffsets",
            "kafka.group.id",
            "scan.bounded.mode",
            "scan.bounded.timestamp-millis",
            "scan.bounded.specific-offsets",
        )
    }
    with pytest.raises(OptionError, match=re.escape(f"Unknown option '{name}'.")) as raised:
        check_known([name], known)
    assert said in str(raised.value)
