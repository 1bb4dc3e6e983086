"""``docs/kinesis.md`` is compared with the code."""

from __future__ import annotations

import re
from pathlib import Path

from flip27_stream.connectors.kinesis.options.option_list import OPTIONS, REFUSED, WITHOUT_EFFECT
from flip27_stream.connectors.kinesis.options.source_options import parse_kinesis_options
from tests.documentation.options_page import row

PAGE = (Path(__file__).parents[4] / "docs" / "kinesis.md").read_text()
ROWS = re.findall(r"^\| `([^`]+)` \| .* \| .* \| (.*) \|$", PAGE, re.MULTILINE)


def test_the_page_has_every_option_and_no_other() -> None:
    assert "".join(map(row, OPTIONS)) in PAGE
    assert len(ROWS) == len(OPTIONS)


def test_writing_out_the_defaults_changes_nothing() -> None:
    defaults = {name: found[1] for name, text in ROWS if (found := re.fullmatch(r"`(.*)`", text))}
    needing_others = (
        "roleSessionName",
        "consumerNamePrefix",
        "consumerRefreshInterval",
        "requireConsumerDeregistration",
    )
    for name in needing_others:
        defaults.pop(name)
    least = {"streamName": "clicks"}
    assert parse_kinesis_options({**least, **defaults}) == parse_kinesis_options(least)
    assert len(defaults) >= 10


def test_the_page_names_what_is_refused_and_what_has_no_effect() -> None:
    for name in (*REFUSED, *WITHOUT_EFFECT):
        assert f"`{name}`" in PAGE
