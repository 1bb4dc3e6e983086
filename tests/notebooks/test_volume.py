"""Notebooks run on a file system without hard links, such as a volume.

The kernel refuses hard links to the JVM and to all Python processes of a test. Where a group has several sources, its
table must not lie on a volume, and the notebook says so: there only the folder of the notebook refuses hard links, and
the table lies elsewhere. ``tests/spark/queries/test_pipelines.py`` does that for the notebook of a pipeline.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flip27_stream.testing import KafkaBroker, KinesisServer
from flip27_stream.testing.kinesis import skip_reason
from tests.spark.support.processes import QUICK_START
from tests.watermark_alignment.support.no_hard_links import CALLS, COMPILER, links_refused_in

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
SCRIPT = """
import errno, json, os, sys
from pathlib import Path
from typing import Any
from flip27_stream.testing import local_session
from tests.watermark_alignment.support.no_hard_links import refuse_hard_links

if "LD_PRELOAD" not in os.environ:
    refuse_hard_links()
folder, notebook, parameters, result = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
try:
    os.link(notebook, folder / "link")
except OSError as error:
    assert error.errno == errno.ENOSYS
else:
    raise AssertionError("hard links are not refused")
spark = local_session("volume", conf={"spark.sql.shuffle.partitions": "1"})
names = {"__name__": "__main__", "spark": spark, "folder": str(folder), **parameters}
exec(compile(notebook.read_text(), str(notebook), "exec"), names)
print("result", eval(result, names))
spark.stop()
"""


READINGS = "sorted((row['sensor'], row['count']) for row in read.collect())"


def rows(folder: Path) -> list[dict[str, Any]]:
    """Returns the rows of the split-watermark table of the notebook that ran with this folder."""
    (table,) = folder.glob("*/split_watermarks")
    found: list[dict[str, Any]] = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return found


def executed(
    notebook: str, folder: Path, result: str, environment: Mapping[str, str], **parameters: str
) -> tuple[str, str]:
    """Runs a notebook with parameters.

    Returns:
        The value of an expression of its names, and its standard error.
    """
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            SCRIPT,
            str(folder),
            str(NOTEBOOKS / notebook),
            json.dumps(parameters),
            result,
        ],
        capture_output=True,
        text=True,
        env={**os.environ, **QUICK_START, "PYTHONPATH": str(ROOT), **environment},
        timeout=350,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("result ")[2].strip(), done.stderr


def run(notebook: str, folder: Path, result: str, **parameters: str) -> str:
    """Runs a notebook where nothing has hard links, and returns the value of an expression of its names.

    Batches are in the table, and a warning says which locations are safe.
    """
    value, said = executed(notebook, folder, result, {}, **parameters)
    assert "has no hard links" in said
    assert "safe as long as one source writes" in said
    assert len({row["batch"] for row in rows(folder)}) > 3
    return value


pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        platform.machine() not in CALLS, reason="the numbers of its system calls are not known"
    ),
]


def test_a_notebook_runs_as_written_without_hard_links(tmp_path: Path) -> None:
    said = run("04_your_own_source.py", tmp_path, READINGS)
    assert said == "[('boiler', 3600), ('hall', 720), ('roof', 360)]"
    assert sum(row["rows"] for row in rows(tmp_path)) == 4680
    (commits,) = tmp_path.glob("*/checkpoint/commits")
    assert len({row["batch"] for row in rows(tmp_path)}) == len(list(commits.glob("[0-9]*")))


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler for a folder without hard links")
def test_the_notebook_of_a_join_runs_with_the_table_of_its_group_elsewhere(
    tmp_path: Path, broker: KafkaBroker
) -> None:
    """Two sources write to the table at the same time, on a disk with hard links. All else lies on the volume."""
    volume, disk = tmp_path / "volume", tmp_path / "disk"
    volume.mkdir()
    value, said = executed(
        "02_joining_two_topics.py",
        volume,
        "pairs",
        links_refused_in(volume, tmp_path),
        bootstrap_servers=broker.bootstrap_servers,
        place_of_table=str(disk),
    )
    assert value == "[300, 300]"
    assert "has no hard links" not in said, "the table lies on the volume"
    assert {row["source"] for row in rows(disk)} == {"views", "clicks"}
    names = {"without", "aligned", "without_checkpoint", "aligned_checkpoint"}
    assert {path.name for path in volume.glob("*/*")} == names


def test_a_notebook_that_writes_a_table_runs_without_hard_links(tmp_path: Path, broker: KafkaBroker) -> None:
    counts = "[row['count'] for row in counted.collect()]"
    servers = broker.bootstrap_servers
    assert run("03_history_then_kafka.py", tmp_path, counts, bootstrap_servers=servers) == str([3600] * 11)


def test_the_quick_start_runs_without_hard_links(tmp_path: Path, broker: KafkaBroker) -> None:
    servers = broker.bootstrap_servers
    assert run("01_quick_start.py", tmp_path, "aligned[2] > 1000", bootstrap_servers=servers) == "True"


def test_the_notebook_of_monitoring_runs_without_hard_links(tmp_path: Path, broker: KafkaBroker) -> None:
    stalls = "any('stalls group' in line for line in said)"
    servers = broker.bootstrap_servers
    assert run("05_watching_alignment.py", tmp_path, stalls, bootstrap_servers=servers) == "True"


@pytest.mark.node
@pytest.mark.skipif(skip_reason() is not None, reason=skip_reason() or "")
def test_the_kinesis_notebook_runs_without_hard_links(tmp_path: Path) -> None:
    with KinesisServer() as server:
        assert run("06_kinesis.py", tmp_path, "distinct", **server.options) == "1000"
