"""The notebooks run from top to bottom in a given Spark session, without Databricks' ``dbutils``, on a volume.

A volume is a file system without hard links. All notebooks run in one process, for which one folder is the volume;
without a C compiler all folders are. Where a group has several sources, its table must not lie on a volume, and the
notebook says so: there the table lies elsewhere. ``tests/spark/queries/test_pipelines.py`` does that for the notebook
of a pipeline.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flip27_stream.testing import KafkaBroker, KinesisServer
from flip27_stream.testing.kinesis import skip_reason
from tests.notebooks.support.volume import NOTEBOOKS, VolumeProcess, volume_process
from tests.watermark_alignment.support.no_hard_links import CALLS, COMPILER, links_refused_in


def test_every_notebook_is_databricks_source() -> None:
    notebooks = sorted(NOTEBOOKS.iterdir())
    assert [n.name for n in notebooks if not n.read_text().startswith("# Databricks notebook source\n")] == []


def test_the_page_about_volumes_names_every_notebook() -> None:
    page = (NOTEBOOKS.parent / "docs" / "deploy.md").read_text()
    about = page.partition("Each notebook takes a volume as its folder:\n\n")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`notebooks/(\w+\.py)`", about)) == sorted(n.name for n in NOTEBOOKS.iterdir())


def rows(folder: Path) -> list[dict[str, Any]]:
    """Returns the rows of the split-watermark table of the notebook that ran with this folder."""
    (table,) = folder.glob("*/split_watermarks")
    found: list[dict[str, Any]] = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return found


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("volume")


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory, volume: Path) -> Iterator[VolumeProcess]:
    """The process without hard links on the volume that the tests share."""
    outside = tmp_path_factory.mktemp("outside")
    refused = None if COMPILER is None else links_refused_in(volume, outside)
    with volume_process(outside / "log", refused) as running:
        yield running


@pytest.fixture
def folder(request: pytest.FixtureRequest, volume: Path) -> Path:
    """A folder of the test on the volume."""
    folder: Path = volume / request.node.name
    folder.mkdir()
    return folder


class OnVolume:
    """Runs notebooks where nothing has hard links."""

    def __init__(self, process: VolumeProcess, folder: Path) -> None:
        self._process = process
        self._folder = folder

    def run(self, notebook: str, *names: str, **parameters: str) -> dict[str, Any]:
        """Runs a notebook, and returns some of the names that it defined, or attributes of them.

        Batches are in the table, a warning says which locations are safe, and the picture has its two panels.
        """
        expressions = ", ".join(f"{name!r}: {name}" for name in [*names, "len(picture.axes)"])
        found, said = self._process.run(notebook, self._folder, f"{{{expressions}}}", **parameters)
        assert "has no hard links" in said
        assert "safe as long as one source writes" in said
        assert len({row["batch"] for row in rows(self._folder)}) > 3
        assert found["len(picture.axes)"] == 2
        return dict(found)


@pytest.fixture
def on_volume(process: VolumeProcess, folder: Path) -> OnVolume:
    return OnVolume(process, folder)


@pytest.mark.jvm
@pytest.mark.skipif(platform.machine() not in CALLS, reason="the numbers of its system calls are not known")
class TestOnVolume:
    """Each runs with all its files on a volume, but the table of a group."""

    def test_the_quick_start(self, on_volume: OnVolume, broker: KafkaBroker) -> None:
        servers = broker.bootstrap_servers
        names = on_volume.run(
            "01_quick_start.py", "without", "aligned", "type(comparison).__name__", bootstrap_servers=servers
        )
        without, aligned = names["without"], names["aligned"]
        still_open = 1200 // 72 + 1200 // 12  # records of the backlog's partition in less than two windows
        assert aligned[2] > 1200 - still_open
        assert without.get(2, 0) < aligned[2] - 100, "rows of the partition with a backlog were dropped"
        assert names["type(comparison).__name__"] == "Figure"

    @pytest.mark.skipif(COMPILER is None, reason="there is no C compiler for a folder without hard links")
    def test_a_join_with_the_table_of_its_group_elsewhere(
        self, process: VolumeProcess, folder: Path, tmp_path: Path, broker: KafkaBroker
    ) -> None:
        """Two sources write to the table at the same time, on a disk with hard links. All else lies on the volume."""
        disk = tmp_path / "disk"
        names, said = process.run(
            "02_joining_two_topics.py",
            folder,
            "pairs, aligned, without, [panel.get_title() for panel in picture.axes[:2]]",
            bootstrap_servers=broker.bootstrap_servers,
            place_of_table=str(disk),
        )
        pairs, aligned, without, titles = names
        assert pairs == [300, 300]
        assert max(aligned) < max(without)
        assert titles == ["views", "clicks"]
        assert "has no hard links" not in said, "the table lies on the volume"
        assert {row["source"] for row in rows(disk)} == {"views", "clicks"}
        folders = {"without", "aligned", "without_checkpoint", "aligned_checkpoint"}
        assert {path.name for path in folder.glob("*/*")} == folders

    def test_a_hybrid_source(self, on_volume: OnVolume, broker: KafkaBroker) -> None:
        counts = "[row['count'] for row in counted.collect()]"
        names = on_volume.run("03_history_then_kafka.py", counts, bootstrap_servers=broker.bootstrap_servers)
        assert names[counts] == [3600] * 11

    def test_an_own_source(self, on_volume: OnVolume, folder: Path) -> None:
        read = "{row['sensor']: row['count'] for row in read.collect()}"
        names = on_volume.run("04_your_own_source.py", read)
        assert names[read] == {"boiler": 3600, "hall": 720, "roof": 360}
        assert sum(row["rows"] for row in rows(folder)) == 4680
        (commits,) = folder.glob("*/checkpoint/commits")
        assert len({row["batch"] for row in rows(folder)}) == len(list(commits.glob("[0-9]*")))

    def test_monitoring(self, on_volume: OnVolume, broker: KafkaBroker) -> None:
        names = on_volume.run(
            "05_watching_alignment.py",
            "run",
            "now",
            "said",
            "stalled_at",
            "len(log.handlers)",
            bootstrap_servers=broker.bootstrap_servers,
        )
        run, minute = names["run"], 60_000
        silent_since = names["now"] - 40 * minute
        stalls = [line for line in names["said"] if "stalls group" in line]
        assert [len(stalls), names["len(log.handlers)"]] == [1, 0]
        assert any(f"Split {run}-2 of source " in line and "stalls group" in line for line in names["said"])
        behind = names["stalled_at"][f"{run}-2"]
        ahead = [names["stalled_at"][f"{run}-{p}"] for p in (0, 1)]
        assert behind.timestamp() * 1000 == pytest.approx(silent_since, abs=2000)
        assert all((time - behind).total_seconds() == pytest.approx(600, abs=2) for time in ahead)

    @pytest.mark.node
    @pytest.mark.skipif(skip_reason() is not None, reason=skip_reason() or "")
    def test_kinesis(self, on_volume: OnVolume) -> None:
        with KinesisServer() as server:
            names = on_volume.run("06_kinesis.py", "distinct", "by_shard", **server.options)
        assert names["distinct"] == sum(names["by_shard"].values()) == 1000
        assert len(names["by_shard"]) == 4
