"""The options page agrees with the code, and links and names on all pages lead to something in the repository."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from pathlib import Path

import pytest

from flip27_stream.connectors.files.backlog.digest import BUCKETS
from flip27_stream.connectors.files.backlog.processed_files import WINDOW
from flip27_stream.connectors.files.options.format_options import FORMAT_OPTIONS, file_format
from flip27_stream.connectors.files.options.option_list import DELTA_OPTIONS, FOLDER_OPTIONS, REFUSED
from flip27_stream.connectors.files.options.source_options import parse_file_options
from flip27_stream.connectors.files.storage.store_parameters import OPTION_PREFIX as STORE_OPTION_PREFIX
from flip27_stream.connectors.kafka.client.client import ConnectionOptions
from flip27_stream.connectors.kafka.options.source_options import (
    FORBIDDEN,
    KNOWN_OPTIONS,
    WITHOUT_EFFECT,
    parse_kafka_options,
)
from flip27_stream.connectors.kafka.source import KafkaSource, KafkaSourceFactory
from flip27_stream.connectors.kinesis.options import option_list as kinesis
from flip27_stream.connectors.pulsar.options import option_list as pulsar
from flip27_stream.options import flink_names
from offsets import OffsetCodec
from tests.documentation.options_page import DOCS, LISTS, SECTIONS, with_tables
from tests.watermark_alignment.support.simulator import LifeSettings, SimulatedMember, SplitLog
from watermark_alignment.options import (
    GROUP,
    MAX_DRIFT,
    STORAGE_OPTION_PREFIX,
    TABLE,
    AlignmentOptions,
)
from watermark_alignment.planner import SplitView, plan
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.maintenance import (
    CHECKPOINT_EVERY,
    ROUND_EVERY,
    ROW_RETENTION,
    ROW_RETENTION_DEFAULT,
)
from watermark_alignment.table.split_rows import SCHEMA
from watermark_alignment.table.split_watermark_table import PROPERTIES

REQUIRED = "kafka.bootstrap.servers"
PACKAGES = "flip27_stream|watermark_alignment|offsets|benchmarks|tests"
OF_FLINK = (*flink_names.REPLACED_BY, "scan.watermark.emit.")
"""Options of Flink that pages name and this project does not have, and prefixes of those that it refuses by name."""
FREE = (STORAGE_OPTION_PREFIX, STORE_OPTION_PREFIX)
"""Prefixes of options that a store defines."""
OPTION_LISTS = (*SECTIONS.values(), kinesis.OPTIONS, pulsar.OPTIONS)
OF_CONNECTORS = {
    *(option.name for options in OPTION_LISTS for option in options),
    *(*FORBIDDEN, *WITHOUT_EFFECT),
    *(*pulsar.REFUSED, *pulsar.WITHOUT_EFFECT, *kinesis.REFUSED, *kinesis.WITHOUT_EFFECT),
}
FAMILIES = "|".join(sorted({name.split(".")[0] for name in OF_CONNECTORS if "." in name}))
OF_OTHERS = {"checkpointLocation", "folder", "rows"}
"""Options in examples that Spark has, or the source that ``docs/write-a-source.md`` writes."""

ROOT = Path(__file__).parents[2]
MODULE_FILES = {path.name for folder in PACKAGES.split("|") for path in (ROOT / folder).rglob("*.py")}
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
OPTIONS_PAGE = (DOCS / "options.md").read_text()
BEHIND_THE_SCENE = (ROOT / "docs" / "behind-the-scene.md").read_text()
GUARANTEE = (ROOT / "docs" / "guarantee.md").read_text()


@dataclasses.dataclass(frozen=True)
class OptionRow:
    """One row of a table of options."""

    name: str
    meaning: str
    allowed: str
    default: str

    @property
    def value(self) -> str | None:
        """The default as a user would write it, or ``None`` if the table has no literal value."""
        literal = re.fullmatch(r"`([^`]*)`", self.default)
        return literal[1] if literal else None


def rows(section: str) -> dict[str, OptionRow]:
    text = OPTIONS_PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| `([^`]+)` \| (.*) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    return {row[0]: OptionRow(*row) for row in cells}


ALIGNMENT, KAFKA, FILES = rows("Alignment and event time"), rows("Kafka"), rows("Files")


@pytest.mark.parametrize("name", LISTS)
def test_the_tables_of_options_are_those_of_the_code(name: str) -> None:
    """A page has the names, meanings, allowed values and defaults of the code.

    ``python -m tests.documentation.options_page`` writes them.
    """
    page = (DOCS / name).read_text()
    assert page.splitlines() == with_tables(page, LISTS[name]).splitlines()
    changed = page.replace(" | no default |", " | a default |")
    assert with_tables(changed, LISTS[name]) == page


def test_the_page_of_options_has_those_of_stores() -> None:
    assert STORAGE_OPTION_PREFIX in OPTIONS_PAGE


@pytest.mark.parametrize("section", SECTIONS)
def test_every_default_is_a_value_that_the_option_takes(section: str) -> None:
    for option in SECTIONS[section]:
        if option.default is not None:
            assert option.get({}) == option.get({option.key: option.default})
        assert option.meaning.endswith(".")


def test_alignment_options_are_required_as_the_page_says() -> None:
    required = {
        name: "/1 s" if name.endswith("table") else "1 s"
        for name, row in ALIGNMENT.items()
        if "Required with a group" in row.meaning
    }

    parsed = AlignmentOptions.parse({"scan.watermark.alignment.group": "g", **required})

    assert len(required) == 2
    assert parsed is not None


def test_required_options_come_first() -> None:
    assert next(iter(KAFKA)) == REQUIRED
    assert list(ALIGNMENT)[:3] == [GROUP.name, MAX_DRIFT.name, TABLE.name]
    assert next(iter(FILES)) == "path"


def test_the_factory_knows_every_kafka_option() -> None:
    assert KafkaSourceFactory.option_names == KNOWN_OPTIONS
    assert set(KAFKA) <= set(KNOWN_OPTIONS.values())


def test_defaults_of_kafka_options_change_nothing() -> None:
    """Setting each Kafka option to its default on the page changes nothing. By default there is no limit of rows."""
    least = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "clicks"}
    defaults = {name: row.value for name, row in KAFKA.items() if row.value is not None}
    by_itself = parse_kafka_options(least)
    assert parse_kafka_options({**least, **defaults}) == by_itself
    assert by_itself.limits.max_rows is None


def test_the_default_of_the_api_timeout_is_on_the_page() -> None:
    connection = ConnectionOptions("localhost:9092")
    expected = [connection.first_contact_timeout_ms, connection.api_timeout_ms]
    assert [int(n) for n in re.findall(r"\d+", KAFKA["kafka.default.api.timeout.ms"].default)] == expected


def test_the_page_names_what_is_refused_and_what_has_no_effect() -> None:
    for name in (*FORBIDDEN, *WITHOUT_EFFECT):
        assert f"`{name}`" in OPTIONS_PAGE


def test_the_page_names_the_options_of_files_that_are_refused() -> None:
    refused = OPTIONS_PAGE.split("## Files")[1].split("Refused, with the reason:")[1]
    assert re.findall(r"`(\w+)`", refused) == list(REFUSED)


@pytest.mark.parametrize("form", ["parquet", "csv", "delta"])
def test_defaults_of_file_options_change_nothing(form: str) -> None:
    """Setting each option of files to its default on the page changes nothing."""
    of_lines = {option.key for options in FORMAT_OPTIONS.values() for option in options}
    folders_only = {option.name for option in FOLDER_OPTIONS}
    delta_only = {option.name for option in DELTA_OPTIONS}
    left_out = {"files.format", *(delta_only if form != "delta" else folders_only)}
    least = {"path": "/data", "files.format": form}
    defaults = {n: row.value for n, row in FILES.items() if row.value is not None and n not in left_out}
    plain = {name: value for name, value in defaults.items() if name.lower() not in of_lines}
    assert parse_file_options({**least, **plain}) == parse_file_options(least)
    if form == "csv":
        lines = {name: value for name, value in defaults.items() if name.lower() in of_lines}
        assert file_format(form, lines) == file_format(form, {})


def test_the_memory_of_files_is_as_the_page_says() -> None:
    page = (ROOT / "docs" / "files.md").read_text()
    assert f"{WINDOW:,} newest files" in page
    assert f"in {BUCKETS} buckets" in page


def test_the_short_table_of_the_readme_agrees_with_the_options_page() -> None:
    readme = (ROOT / "README.md").read_text()
    short = dict(re.findall(r"^\| `(scan\.[^`]+)` \| .* \| `?(.*?)`? \|$", readme, re.MULTILINE))
    assert short
    for name, default in short.items():
        if ALIGNMENT[name].value is not None:
            assert default == ALIGNMENT[name].value


def test_the_offset_on_the_page_is_one_of_a_kafka_source() -> None:
    printed = re.findall(r"```json\n(.*?)```", BEHIND_THE_SCENE, re.DOTALL)
    document = json.loads(printed[0])
    source = KafkaSource({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "clicks"})
    codec = OffsetCodec(source.fingerprint, source.split_serializer, source.enumerator_checkpoint_serializer)
    offset = codec.from_json(document)
    assert offset is not None
    assert json.dumps(codec.to_json(offset)) == " ".join(printed[0].split())


def test_the_columns_of_the_table_are_on_the_page() -> None:
    section = BEHIND_THE_SCENE.split("## The split-watermark table")[1].split("\n## ")[0]
    first_cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(first_cells)) == SCHEMA.names


def test_the_upkeep_of_the_table_is_as_the_page_says() -> None:
    text = " ".join(BEHIND_THE_SCENE.split())
    assert f"a version divisible by {CHECKPOINT_EVERY} writes a checkpoint" in text
    assert f"a version divisible by {ROUND_EVERY} merges small files" in text
    kept = re.findall(r"^\| `(\S+Duration)` \|.*\| (.+) \|$", BEHIND_THE_SCENE, re.MULTILINE)
    defaults = {**PROPERTIES, ROW_RETENTION: ROW_RETENTION_DEFAULT}
    assert dict(kept) == {name: text.removeprefix("interval ") for name, text in defaults.items()}


def test_the_four_states_are_on_the_page() -> None:
    assert re.findall(r"^\| `([A-Z]+)` \|", GUARANTEE, re.MULTILINE) == [str(s) for s in SplitStatus]


def test_the_worked_batch_of_the_guarantee_is_that_of_the_planner() -> None:
    """The batch at the top of the page is planned by the rule; the next batch reads all that is left."""
    rows = re.findall(r"^\| \*(p\d)\* \| ([\d:, ]+) \| ([\d:, ]+) \| ([\d:]+) \|$", GUARANTEE, re.MULTILINE)
    logs = {split: SplitLog(list(times_in(there))) for split, there, _, _ in rows}
    member = SimulatedMember(LifeSettings(max_drift=2 * 60_000, out_of_orderness=30_000), logs)
    batch = member.round(now=0)
    assert batch.rows == {split: times_in(read) for split, _, read, _ in rows}
    assert {split: [member.view(split, 0, answered=True).front] for split in logs} == {
        split: times_in(front) for split, _, _, front in rows
    }
    logs["p2"].entries += times_in("12:02, 12:03, 12:04, 12:05")
    member.round(now=1)
    assert all(member.kept[split].position == len(log.entries) for split, log in logs.items())


def times_in(text: str) -> list[int]:
    """Returns the times of day in a text (ms)."""
    return [(int(hour) * 60 + int(minute)) * 60_000 for hour, minute in re.findall(r"(\d\d):(\d\d)", text)]


def test_the_example_of_the_guarantee_has_its_result() -> None:
    """The times in the example of the guarantee are those that the planner computes (I3, I4)."""
    minute, noon = 60_000, 12 * 60 * 60_000
    a = SplitView("a", position=7, end=7, read_max=noon)
    b = SplitView("b", position=0, end=10_000, next=noon, reach=noon + 120 * minute)
    planned = plan(
        [a, b],
        lambda horizon: {"b": (5, 5)},
        limit=None,
        max_drift=5 * minute,
        out_of_orderness=minute // 2,
        idle_timeout=minute,
        now=noon,
        floor=None,
    )
    assert planned.horizon == noon + 5 * minute + 1
    assert f"H is {clock(planned.horizon)}" in GUARANTEE
    latest, oldest_to_come = planned.horizon - 1, noon - minute // 2
    assert f"is at {clock(latest)} at most" in GUARANTEE
    assert f"at {clock(oldest_to_come)}. Spark drops" in GUARANTEE
    for delay, fate in ((10 * minute, "is kept"), (330_001, "is kept"), (330_000, "is dropped")):
        assert (oldest_to_come > latest - delay) == (fate == "is kept")
        assert f"| {clock(latest - delay)} | {fate} |" in GUARANTEE


def clock(time: int) -> str:
    seconds, ms = divmod(time, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_targets_of_links_exist(page: Path) -> None:
    for target in re.findall(r"\]\((?!https:)([^)#\s]+)[^)]*\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_that_pages_name_exist(page: Path) -> None:
    for name in re.findall(rf"`((?:{FAMILIES})\.[A-Za-z.-]+)`", page.read_text()):
        assert name in OF_CONNECTORS or name.startswith((*FREE, *OF_FLINK)), f"{page.name} names {name}"


def test_the_page_about_flink_has_the_options_of_flink_that_an_error_names() -> None:
    page = (DOCS / "flink.md").read_text()
    here = {name for names in flink_names.REPLACED_BY.values() for name in names}
    assert here <= OF_CONNECTORS | set(ALIGNMENT)
    assert [name for name in sorted({*flink_names.REPLACED_BY, *here}) if f"`{name}`" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_in_examples_exist(page: Path) -> None:
    for name in re.findall(r"\.option\(\s*[\"']([^\"']+)", page.read_text()):
        assert name in OF_CONNECTORS | OF_OTHERS or name.startswith(FREE), f"{page.name} sets {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_that_pages_name_exist(page: Path) -> None:
    for name in re.findall(rf"`((?:{PACKAGES})(?:\.[a-z0-9_]+)*)`", page.read_text()):
        assert is_there(name.replace(".", "/")), f"{page.name} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_pages_name_exist(page: Path) -> None:
    """Files that pages name exist, also those that are named without a folder."""
    for name in re.findall(rf"`((?:{PACKAGES}|docs|examples|notebooks)/[\w./-]*)`", page.read_text()):
        assert (ROOT / name).exists(), f"{page.name} names {name}"
    for name in re.findall(r"`(\w+\.py)`", page.read_text()):
        assert name in MODULE_FILES, f"{page.name} names {name}"


def is_there(path: str) -> bool:
    """Returns whether there is a package or module at ``path``."""
    module = ROOT / path
    return module.is_dir() or module.with_suffix(".py").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_proposals_are_linked_where_they_are_first_named(page: Path) -> None:
    left_out = r"(?s:```.*?```)|`[^`\n]*`|^#.*$|^\[\S+\]: .*$"
    prose = re.sub(left_out, "", page.read_text(), flags=re.MULTILINE)
    named = dict.fromkeys(re.findall(r"\b(?:FLIP|KIP)-\d+", prose))
    for name in named:
        first = re.search(rf".?\b{name}\b.?", prose)
        assert first is not None
        assert first[0] == f"[{name}]", f"{page.name} names {name} without a link"
        assert f"\n[{name}]: https://cwiki.apache.org/" in page.read_text()


def test_the_readme_links_every_page_and_stays_short() -> None:
    readme = (ROOT / "README.md").read_text()
    included = {"changelog.md", "contributing.md"}  # pages that include files beside the README
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - included
    assert sorted(name for name in pages if f"(docs/{name})" not in readme) == []
    assert "(CHANGELOG.md)" in readme
    assert "(CONTRIBUTING.md)" in readme
    assert len(readme.splitlines()) <= 170


def test_files_that_the_picture_of_the_components_names_exist() -> None:
    picture = (ROOT / "docs" / "architecture.svg").read_text()
    labels = re.findall(r'class="file"[^>]*>([^<]+)<', picture)
    paths = [re.sub(r"^(spark/)", r"flip27_stream/\1", label) for label in labels if ": " not in label]
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [label for label in labels if ": " in label and label.split(": ")[1] not in MODULE_FILES] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_pages_is_python(page: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        ast.parse(block, page.name)
