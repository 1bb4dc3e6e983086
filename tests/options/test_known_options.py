"""Tests of the check that all given options are known."""

from __future__ import annotations

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
