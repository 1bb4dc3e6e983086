"""A declarative pipeline (``pyspark.pipelines``) of two aligned tables, run by Spark's own command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from flip27_stream.spark.session.redaction import REDACTION_SETTING, SECRETS
from tests.spark.support.kafka_queries import HOUR, MINUTE, T0
from tests.spark.support.processes import quick_start
from tests.watermark_alignment.support.no_hard_links import COMPILER, links_refused_in
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

pytestmark = pytest.mark.jvm

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "pipelines.md"
NOTEBOOK = ROOT / "notebooks" / "07_declarative_pipeline.py"
_ROWS = 60
# Spark's default catalog forgets the tables when a run ends.
_LASTING_CATALOG = ("--conf", "spark.sql.catalogImplementation=hive")


def blocks(language: str) -> list[str]:
    """Returns the examples of the page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def write_file(folder: Path, number: int, begin: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    times = pa.array([(begin + i * MINUTE) * 1000 for i in range(_ROWS)], pa.timestamp("us", "UTC"))
    numbers = pa.array(range(number * _ROWS, (number + 1) * _ROWS), pa.int64())
    pq.write_table(pa.table({"time": times, "number": numbers}), folder / f"{number}.parquet")


def run(project: Path, environment: Mapping[str, str] | None = None) -> str:
    """Runs the pipeline in the folder ``project``, and returns what Spark's command line has printed.

    Its exit code is 1 even after a complete run, so it is not used (``docs/pipelines.md``). If Spark has damaged the
    map that the queries of a format share (fact 34), the pipeline is run a second time, as that page tells users to do.
    """
    settings = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1", **quick_start()}
    python = {"PYSPARK_PYTHON": sys.executable, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    said = ""
    for _ in range(2):
        done = subprocess.run(
            ["spark-pipelines", *_LASTING_CATALOG, "run", "--spec", "spark-pipeline.yml"],
            cwd=project,
            env={**os.environ, **settings, **python, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=300,
        )
        said = done.stdout + done.stderr
        if "java.io.OptionalDataException" not in said:
            break
    return said


def test_the_example_of_the_page_runs_exactly_and_incrementally(tmp_path: Path) -> None:
    """Fact 31: the pipeline of the page fills two tables with each row once. Their sources are in one group. A second
    run adds the rows of further files.
    """
    files = {name: tmp_path / "landing" / name for name in ("clicks", "orders")}
    for ahead, folder in enumerate(files.values()):
        write_file(folder, 0, T0 + ahead * HOUR)
    project = tmp_path / "project"
    (project / "transformations").mkdir(parents=True)
    (specification,), (definitions,) = blocks("yaml"), blocks("python")
    (project / "spark-pipeline.yml").write_text(specification.replace("/data", str(tmp_path)))
    (project / "transformations" / "tables.py").write_text(definitions.replace("/data", str(tmp_path)))
    for runs in (1, 2):
        said = run(project)
        assert "Run is COMPLETED" in said, said[-3000:]
        assert REDACTION_SETTING not in said, said[-3000:]
        for name, folder in files.items():
            numbers = rows_of(project, name)["number"].to_pylist()
            assert Counter(numbers) == Counter(range(runs * _ROWS)), name
            write_file(folder, runs, T0 + 2 * HOUR)
    assert members(tmp_path / "split_watermarks") == {("shop", name) for name in files}


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler for a folder without hard links")
def test_the_notebook_runs_as_the_source_of_a_pipeline_with_a_volume(tmp_path: Path) -> None:
    """Data and the pipeline's storage lie in a folder without hard links, the table of two sources on a disk."""
    names = ("clicks", "orders")
    volume, disk, project = tmp_path / "volume", tmp_path / "disk", tmp_path / "project"
    for ahead, name in enumerate(names):
        write_file(volume / name, 0, T0 + ahead * HOUR)
    project.mkdir()
    (specification,) = blocks("yaml")
    specification = specification.replace("transformations/**", NOTEBOOK.name)
    specification = specification.replace("/data", str(volume)).rstrip()
    specification += f"\n  shop.folder: {volume}\n  shop.place_of_table: {disk}\n"
    (project / "spark-pipeline.yml").write_text(specification)
    (project / NOTEBOOK.name).write_text(NOTEBOOK.read_text())
    said = run(project, links_refused_in(volume, tmp_path))
    assert "Run is COMPLETED" in said, said[-3000:]
    assert "has no hard links" not in said, "the table lies on the volume"
    counted = rows_of(project, "by_hour").to_pylist()
    assert {(row["name"], row["rows"]) for row in counted} == {(name, _ROWS) for name in names}
    assert members(disk / "split_watermarks") == {("shop", name) for name in names}
    assert any((volume / "storage").rglob("commits")), "the pipeline's storage lies on the volume"


def rows_of(project: Path, table: str) -> pa.Table:
    return ds.dataset(project / "spark-warehouse" / table, format="parquet").to_table()


def members(split_watermarks: Path) -> set[tuple[str, str]]:
    """Returns the group and the id of each source that read rows."""
    rows = SplitWatermarkTable(str(split_watermarks), {}).rows().to_pylist()
    return {(row["group"], row["source"]) for row in rows if row["rows"]}


def test_the_page_has_the_redaction_setting() -> None:
    (specification,) = blocks("yaml")
    assert f"{REDACTION_SETTING}: '((?i)url)|({SECRETS})'" in specification
