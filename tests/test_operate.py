"""What ``docs/operate.md`` and ``docs/migrate.md`` print: code that takes positions out of checkpoints, and alerts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flip27_stream
from flip27_stream.testing import KafkaBroker
from tests.test_troubleshooting import is_said, ours

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[1] / "docs"
OPERATE = (DOCS / "operate.md").read_text()


def printed(page: str, function: str) -> Callable[[str], str]:
    """A function that a page prints."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    (code,) = [block for block in blocks if f"def {function}(" in block]
    names: dict[str, Any] = {}
    exec(compile(code, page, "exec"), names)
    found: Callable[[str], str] = names[function]
    return found


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("page", "function", "written_by", "read_by"),
    [
        ("operate.md", "starting_offsets", "flip27_kafka", "kafka"),
        ("migrate.md", "starting_offsets_of_spark", "kafka", "flip27_kafka"),
    ],
)
def test_positions_of_a_checkpoint_are_taken_up_by_the_other_source(
    page: str,
    function: str,
    written_by: str,
    read_by: str,
    broker: KafkaBroker,
    spark: SparkSession,
    topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    flip27_stream.register(spark)
    clicks = topic(partitions=2)
    broker.write(clicks, [(0, 1000, None, b"a"), (0, 2000, None, b"b"), (1, 1000, None, b"c")])

    def read(name: str, starting_offsets: str) -> list[bytes]:
        rows = (
            spark.readStream.format(name)
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("subscribe", clicks)
            .option("startingOffsets", starting_offsets)
            .load()
        )
        sink = f"{function}_{name}"
        query = (
            rows.writeStream.format("memory")
            .queryName(sink)
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(bytes(row.value) for row in spark.table(sink).collect())

    assert read(written_by, "earliest") == [b"a", b"b", b"c"]
    positions = printed(page, function)(str(tmp_path / written_by))
    broker.write(clicks, [(0, 3000, None, b"d"), (1, 3000, None, b"e")])

    assert json.loads(positions) == {clicks: {"0": 2, "1": 1}}
    assert read(read_by, positions) == [b"d", b"e"]


def test_the_alerts_are_said_so() -> None:
    alerts = re.findall(r"^> (.+)$", OPERATE, re.MULTILINE)
    assert len(alerts) == 5
    assert [text for text in alerts if not is_said(text, ours())] == []
