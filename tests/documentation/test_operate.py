"""The code on ``docs/operate.md`` takes positions out of a checkpoint, and its alerts quote messages of the code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flip27_stream
from flip27_stream.testing import KafkaBroker
from tests.documentation.support.page_functions import function_of
from tests.documentation.support.source_texts import is_said, ours

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs"
OPERATE = (DOCS / "operate.md").read_text()


@pytest.mark.jvm
@pytest.mark.parametrize("next_source", ["flip27_kafka", "kafka"])
def test_a_new_checkpoint_goes_on_where_another_ends(
    next_source: str, broker: KafkaBroker, spark: SparkSession, topic: Callable[..., str], tmp_path: Path
) -> None:
    """A query with a new checkpoint continues from the positions of an old one, with our source and Spark's own."""
    starting_offsets = function_of("operate.md", "starting_offsets")
    flip27_stream.register(spark)
    clicks = topic(partitions=2)
    broker.write(clicks, [(0, 1000, None, b"a"), (0, 2000, None, b"b"), (1, 1000, None, b"c")])

    def read(name: str, starting_offsets: str, checkpoint: str) -> list[bytes]:
        rows = (
            spark.readStream.format(name)
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("subscribe", clicks)
            .option("startingOffsets", starting_offsets)
            .load()
        )
        sink = f"{checkpoint}_{next_source}"
        query = (
            rows.writeStream.format("memory")
            .queryName(sink)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(bytes(row.value) for row in spark.table(sink).collect())

    assert read("flip27_kafka", "earliest", "old") == [b"a", b"b", b"c"]
    positions = starting_offsets(str(tmp_path / "old"))
    broker.write(clicks, [(0, 3000, None, b"d"), (1, 3000, None, b"e")])

    assert json.loads(positions) == {clicks: {"0": 2, "1": 1}}
    assert read(next_source, positions, "new") == [b"d", b"e"]


def test_quoted_alerts_are_messages_of_the_code() -> None:
    alerts = re.findall(r"^> (.+)$", OPERATE, re.MULTILINE)
    assert len(alerts) == 5
    assert [text for text in alerts if not is_said(text, ours())] == []
