"""The options page against the code, and links and names in all pages against the checkout."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.connectors.kafka.client import ConnectionOptions
from flip27_stream.connectors.kafka.options import FORBIDDEN, OPTION_NAMES, parse_kafka_options
from flip27_stream.connectors.kafka.source import KafkaSourceFactory
from watermark_alignment.options import OPTIONS, STORAGE_OPTION_PREFIX, AlignmentOptions, Option

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OPTIONS_PAGE = (ROOT / "docs" / "options.md").read_text()


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a table of options."""

    name: str
    meaning: str
    allowed: str
    default: str

    @property
    def value(self) -> str | None:
        """The default as a user would write it; None where there is none."""
        literal = re.fullmatch(r"`(.*)`", self.default)
        return literal[1] if literal else None


def rows(section: str) -> dict[str, Row]:
    text = OPTIONS_PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| `([^`]+)` \| (.*) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    return {row[0]: Row(*row) for row in cells}


ALIGNMENT, KAFKA = rows("Alignment and event time"), rows("Kafka")


def test_the_page_has_every_alignment_option_and_no_other() -> None:
    assert list(ALIGNMENT) == [option.name for option in OPTIONS]
    assert STORAGE_OPTION_PREFIX in OPTIONS_PAGE


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_defaults_and_values_of_alignment_options(option: Option[Any]) -> None:
    row = ALIGNMENT[option.name]
    assert row.value == option.default
    assert row.allowed == option.kind.words


def test_alignment_options_are_required_as_the_page_says() -> None:
    required = {name: "1 s" for name, row in ALIGNMENT.items() if "Required with a group" in row.meaning}

    parsed = AlignmentOptions.parse({"scan.watermark.alignment.group": "g", **required})

    assert len(required) == 2
    assert parsed is not None


def test_the_page_has_every_kafka_option_and_no_other() -> None:
    assert list(KAFKA) == list(OPTION_NAMES)
    assert set(KafkaSourceFactory.option_names.values()) == set(OPTION_NAMES)


def test_defaults_of_kafka_options() -> None:
    """Writing out every default of the page changes nothing; where it names none, none is set."""
    least = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "clicks"}
    defaults = {name: row.value for name, row in KAFKA.items() if row.value is not None}
    by_itself = parse_kafka_options(least)
    assert parse_kafka_options({**least, **defaults}) == by_itself
    assert by_itself.max_offsets_per_trigger is None
    without = {name for name, row in KAFKA.items() if row.value is None} - set(least)
    assert without == {"subscribePattern", "assign", "maxOffsetsPerTrigger", "kafka.default.api.timeout.ms"}


def test_the_default_of_the_api_timeout() -> None:
    connection = ConnectionOptions("localhost:9092")
    expected = [connection.first_contact_timeout_ms, connection.api_timeout_ms]
    assert [int(n) for n in re.findall(r"\d+", KAFKA["kafka.default.api.timeout.ms"].default)] == expected


def test_the_page_names_what_is_refused() -> None:
    for name in FORBIDDEN:
        assert f"`{name}`" in OPTIONS_PAGE


def test_the_short_table_of_the_readme_agrees_with_the_options_page() -> None:
    readme = (ROOT / "README.md").read_text()
    short = dict(re.findall(r"^\| `(scan\.[^`]+)` \| .* \| `?(.*?)`? \|$", readme, re.MULTILINE))
    assert short
    for name, default in short.items():
        if ALIGNMENT[name].value is not None:
            assert default == ALIGNMENT[name].value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_that_pages_name_exist(page: Path) -> None:
    known = {*ALIGNMENT, *KAFKA, *FORBIDDEN}
    for name in re.findall(r"`((?:scan|kafka)\.[a-z.-]+)`", page.read_text()):
        assert name in known or name.startswith(STORAGE_OPTION_PREFIX), f"{page.name} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_that_pages_name_exist(page: Path) -> None:
    for name in re.findall(
        r"`((?:flip27_stream|watermark_alignment|offsets)[a-z0-9_./]*)`", page.read_text()
    ):
        path = ROOT / name.removesuffix(".py").replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), f"{page.name} names {name}"
