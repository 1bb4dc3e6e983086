"""The notebooks run from top to bottom, in the given session, without dbutils."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flip27_stream.testing import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
MINUTE = 60_000
BEGIN = 1_700_000_100_000  # a multiple of five minutes


def test_every_notebook_is_databricks_source() -> None:
    notebooks = sorted(NOTEBOOKS.iterdir())
    assert [n.name for n in notebooks if not n.read_text().startswith("# Databricks notebook source\n")] == []


@pytest.mark.jvm
def test_quick_start(
    broker: KafkaBroker, spark: SparkSession, topic: Callable[..., str], tmp_path: Path
) -> None:
    clicks = topic(partitions=2)
    minutes = {0: range(60), 1: range(50, 60)}
    broker.write(clicks, [(p, BEGIN + m * MINUTE, None, b"click") for p in minutes for m in minutes[p]])
    names: dict[str, Any] = {
        "spark": spark,
        "bootstrap_servers": broker.bootstrap_servers,
        "topic": clicks,
        "folder": str(tmp_path),
    }

    notebook = NOTEBOOKS / "01_quick_start.py"
    exec(compile(notebook.read_text(), str(notebook), "exec"), names)

    counts = spark.read.format("delta").load(f"{tmp_path}/counts").orderBy("window")
    # The watermark ends at minute 49: the windows before minute 45 are closed, and partition 1 is in none of them.
    assert [row["count"] for row in counts.collect()] == [5] * 9
    assert len(names["picture"].axes) == 1
