"""The claims of ``docs/hybrid.md`` are compared with the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa

from flip27_stream.connectors.hybrid import HybridSource, SourceSwitchContext
from flip27_stream.connectors.hybrid.planning import source_end as seam
from flip27_stream.connectors.hybrid.seam import overlap
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit
from tests.connectors.hybrid.support.kit import history

PAGE = (Path(__file__).parents[3] / "docs" / "hybrid.md").read_text()


def test_the_offset_it_shows_can_be_read() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    document = json.loads(block)
    kafka = KafkaSource({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "clicks"})
    nothing = pa.RecordBatch.from_pylist([], schema=kafka.schema)
    builder = HybridSource.builder(history("h", {}), converter=lambda records: nothing)
    hybrid = builder.add_source(lambda switch: kafka).build()
    version, state = document["enumerator"]
    read = hybrid.enumerator_checkpoint_serializer.deserialize(version, state)
    assert kafka.enumerator_checkpoint_serializer.deserialize(read.version, read.data).partitions
    ((name, entry),) = document["splits"].items()
    split = hybrid.split_serializer.deserialize(1, entry[4])
    assert (split.split_id, split.split) == (name, KafkaPartitionSplit("clicks", 0))
    assert split.end_position == read.end_position == state["end"]
    assert split.active.source is kafka


def test_the_attributes_of_the_context_are_those_of_the_page() -> None:
    """The page has the attributes that are meant for factories. Their values come from the others."""
    table = PAGE.split("| attribute |")[1].split("\n\n")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    public = {name for name in dir(SourceSwitchContext) if not name.startswith("_")}
    assert set(named) == public - {"known_end", "overlap_ms", "unknown"}


def test_the_bounds_are_those_of_the_page() -> None:
    assert f"at most {overlap._MOST_INTERVALS:,} intervals" in PAGE
    assert f"{seam._MOST_SPLITS:,} splits of the history" in PAGE
