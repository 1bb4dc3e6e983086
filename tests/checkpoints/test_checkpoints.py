"""Offsets that a release wrote are read by every later one.

Never regenerate a document of this folder: add a new one.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Mapping
from pathlib import Path

import pytest

import flip27_stream.connectors
from flip27_stream.connectors.pulsar.positions import position_at
from offsets import OffsetCodec
from tests.checkpoints.sources import SOURCES

DOCUMENTS = sorted(Path(__file__).parent.glob("*/*.json"))
AT = {"clicks-0": 4711, "clicks-1": 12}
POSITIONS: Mapping[str, Mapping[str, int]] = {
    "delta": {"part-0.parquet@1700000000000+900": 5},
    "delta-v3": {"part-0.parquet@1700000000000+900~45ba197fbca3b70a": 5},
    "files": {"/data/clicks/a.parquet@1700000000000+900": 5},
    "hybrid": {f"1:{split}": position for split, position in AT.items()},
    "hybrid-v3": {"0:/data/clicks/a.parquet@1700000000000+900": 5},
    "hybrid-v2": {"0:/data/clicks/a.parquet@1700000000000+900": 5},
    "kafka": AT,
    "kinesis": {
        "clicks/shardId-000000000001#1": 496804712442494583711556224061476878221396384027770880021,
        "clicks/shardId-000000000002#1": 496804712663717976080980000562551120348606817277317218300,
    },
    "pulsar": {
        "persistent://public/default/clicks-partition-0": position_at(1042, 17, 3),
        "persistent://public/default/clicks-partition-1": position_at(998, 4711),
    },
}
"""The positions in the documents of a source, or in one document."""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_offsets_of_each_release_are_read(path: Path) -> None:
    """An offset document of a release is read, and its positions are kept (CO-11, SK-35, KS-01, HY-16)."""
    kind = path.stem.partition("-")[0]
    source = SOURCES[kind]()
    codec = OffsetCodec(
        source.fingerprint,
        source.split_serializer,
        source.enumerator_checkpoint_serializer,
        lambda began, _: began if source.accepts_checkpoint_of(began) else None,
    )

    document = json.loads(path.read_text())
    offset = codec.from_json(document)

    assert offset is not None
    assert {split: state.position for split, state in offset.splits.items()} == POSITIONS.get(
        path.stem, POSITIONS[kind]
    )
    assert codec.from_json(json.loads(json.dumps(codec.to_json(offset)))) == offset
    if document["enumerator"][0] == source.enumerator_checkpoint_serializer.version:
        assert codec.to_json(offset) == document


def test_every_connector_has_a_document() -> None:
    connectors = {
        module.name for module in pkgutil.iter_modules(flip27_stream.connectors.__path__) if module.ispkg
    }
    assert {path.stem.partition("-")[0] for path in DOCUMENTS} == connectors | {"delta"} == set(SOURCES)


@pytest.mark.parametrize("kind", SOURCES)
def test_the_present_versions_have_a_document(kind: str) -> None:
    """Whoever raises a version adds the document that the new version writes."""
    source = SOURCES[kind]()
    found = [json.loads(path.read_text()) for path in DOCUMENTS if path.stem.partition("-")[0] == kind]
    present = source.enumerator_checkpoint_serializer.version, source.split_serializer.version
    assert present in {(document["enumerator"][0], document["split_version"]) for document in found}
