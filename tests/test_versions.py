"""The versions that ``docs/versions.md`` names are those of the serializers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from offsets import FORMAT_VERSION
from tests.checkpoints.sources import SOURCES

PAGE = (Path(__file__).parents[1] / "docs" / "versions.md").read_text()
NAMES = {
    "kafka": "Kafka",
    "files": "files",
    "delta": "files",
    "hybrid": "hybrid sources",
    "kinesis": "Kinesis",
    "pulsar": "Pulsar",
}


def version_of(part: str) -> str:
    (found,) = re.findall(rf"^\| {re.escape(part)} \| ([^|]+) \|", PAGE, re.MULTILINE)
    return str(found)


@pytest.mark.parametrize("kind", SOURCES)
def test_the_page_has_the_versions_of_states_and_splits(kind: str) -> None:
    source = SOURCES[kind]()
    assert version_of(f"enumerator of {NAMES[kind]}") == str(source.enumerator_checkpoint_serializer.version)
    splits = (
        "splits of files" if NAMES[kind] == "files" else "splits of Kafka, Kinesis, Pulsar, hybrid sources"
    )
    assert version_of(splits) == str(source.split_serializer.version)


def test_the_page_has_the_version_of_the_document() -> None:
    assert version_of("the document (`flip27`)").startswith(f"1; {FORMAT_VERSION} where")
