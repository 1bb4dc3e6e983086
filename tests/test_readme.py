"""The README's code works as it is printed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flip27_stream.testing import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
MINUTE = 60_000


def quick_start() -> str:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return next(block for block in blocks if "readStream" in block)


def test_the_quick_start_has_ten_lines() -> None:
    assert len([line for line in quick_start().splitlines() if line]) == 10


@pytest.mark.jvm
def test_the_quick_start_runs(
    broker: KafkaBroker, spark: SparkSession, topic: Callable[..., str], tmp_path: Path
) -> None:
    clicks = topic(partitions=2)
    begin = time.time_ns() // 1_000_000 // (5 * MINUTE) * (5 * MINUTE) - 60 * MINUTE
    times = [begin + i * MINUTE for i in range(30)]
    broker.write(clicks, [(partition, at, None, b"click") for partition in (0, 1) for at in times])
    code = quick_start()
    for printed, ours in {
        '"localhost:9092"': f'"{broker.bootstrap_servers}"',
        '"subscribe", "clicks"': f'"subscribe", "{clicks}"',
        '"/delta/': f'"{tmp_path}/',
    }.items():
        assert printed in code
        code = code.replace(printed, ours)
    names: dict[str, Any] = {"spark": spark}

    exec(compile(code, "README.md", "exec"), names)

    names["query"].processAllAvailable()
    names["query"].stop()
    counts = {
        row["window"].start: row["count"]
        for row in spark.read.format("delta").load(f"{tmp_path}/counts").collect()
    }
    # The watermark is at minute 19, so three windows of five minutes are closed.
    assert list(counts.values()) == [10, 10, 10]
    assert spark.read.format("delta").load(f"{tmp_path}/split_watermarks").count() > 0
