"""The notebooks run from top to bottom in a given Spark session, without Databricks' ``dbutils``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from matplotlib.figure import Figure

from flip27_stream.testing import KafkaBroker, KinesisServer
from flip27_stream.testing.kinesis import skip_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

Run = Callable[[str], dict[str, Any]]


def test_every_notebook_is_databricks_source() -> None:
    notebooks = sorted(NOTEBOOKS.iterdir())
    assert [n.name for n in notebooks if not n.read_text().startswith("# Databricks notebook source\n")] == []


def test_the_page_about_volumes_names_every_notebook() -> None:
    page = (NOTEBOOKS.parent / "docs" / "deploy.md").read_text()
    about = page.partition("Each notebook takes a volume as its folder:\n\n")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`notebooks/(\w+\.py)`", about)) == sorted(n.name for n in NOTEBOOKS.iterdir())


def executed(name: str, spark: SparkSession, **parameters: str) -> dict[str, Any]:
    """Runs a notebook as ``__main__``, as Databricks does, and returns the names that it defined."""
    path = NOTEBOOKS / name
    names: dict[str, Any] = {"__name__": "__main__", "spark": spark.newSession(), **parameters}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names


@pytest.fixture
def run(broker: KafkaBroker, spark: SparkSession, tmp_path: Path) -> Run:
    """Returns a function that runs a notebook with the broker and returns the names that it defined."""

    def notebook(name: str) -> dict[str, Any]:
        return executed(
            name,
            spark,
            bootstrap_servers=broker.bootstrap_servers,
            folder=str(tmp_path),
            place_of_table=str(tmp_path / "disk"),
        )

    return notebook


@pytest.mark.jvm
def test_the_quick_start_notebook_runs(run: Run) -> None:
    names = run("01_quick_start.py")
    without, aligned = names["without"], names["aligned"]
    still_open = 1200 // 72 + 1200 // 12  # records of the backlog's partition in less than two windows
    assert aligned[2] > 1200 - still_open
    assert without.get(2, 0) < aligned[2] - 100, "rows of the partition with a backlog were dropped"
    assert isinstance(names["comparison"], Figure)
    assert len(names["picture"].axes) == 2


@pytest.mark.jvm
def test_the_notebook_of_a_join_runs(run: Run) -> None:
    names = run("02_joining_two_topics.py")
    assert names["table"].startswith(names["place_of_table"]), "volumes do not take two writers"
    assert names["pairs"] == [300, 300]
    assert max(names["aligned"]) < max(names["without"])
    assert [panel.get_title() for panel in names["picture"].axes[:2]] == ["views", "clicks"]


@pytest.mark.jvm
def test_the_notebook_of_a_hybrid_source_runs(run: Run) -> None:
    names = run("03_history_then_kafka.py")
    assert [row["count"] for row in names["counted"].collect()] == [3600] * 11
    assert len(names["picture"].axes) == 2


@pytest.mark.jvm
def test_the_notebook_of_an_own_source_runs(run: Run) -> None:
    names = run("04_your_own_source.py")
    read = {row["sensor"]: row["count"] for row in names["read"].collect()}
    assert read == {"boiler": 3600, "hall": 720, "roof": 360}
    assert len(names["picture"].axes) == 2


@pytest.mark.jvm
def test_the_notebook_of_monitoring_runs(run: Run) -> None:
    names = run("05_watching_alignment.py")
    run_name, minute = names["run"], 60_000
    silent_since = names["now"] - 40 * minute
    assert any(f"Split {run_name}-2 of source " in line and "stalls group" in line for line in names["said"])
    behind = names["stalled_at"][f"{run_name}-2"]
    ahead = [names["stalled_at"][f"{run_name}-{p}"] for p in (0, 1)]
    assert behind.timestamp() * 1000 == pytest.approx(silent_since, abs=2000)
    assert all((time - behind).total_seconds() == pytest.approx(600, abs=2) for time in ahead)
    assert len(names["picture"].axes) == 2


@pytest.mark.jvm
@pytest.mark.node
@pytest.mark.skipif(skip_reason() is not None, reason=skip_reason() or "")
def test_the_kinesis_notebook_runs(spark: SparkSession, tmp_path: Path) -> None:
    with KinesisServer() as server:
        names = executed("06_kinesis.py", spark, folder=str(tmp_path), **server.options)
    assert names["distinct"] == sum(names["by_shard"].values()) == 1000
    assert len(names["by_shard"]) == 4
    assert len(names["picture"].axes) == 2
