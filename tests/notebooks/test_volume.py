"""A notebook runs on a file system without hard links, such as a volume.

The kernel refuses hard links to the JVM and to all Python processes of the test.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.spark.support.processes import QUICK_START
from tests.watermark_alignment.support.no_hard_links import CALLS

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "04_your_own_source.py"
SCRIPT = """
import errno, os, sys
from pathlib import Path
from flip27_stream.testing import local_session
from tests.watermark_alignment.support.no_hard_links import refuse_hard_links

refuse_hard_links()
folder, notebook = map(Path, sys.argv[1:])
try:
    os.link(notebook, folder / "link")
except OSError as error:
    assert error.errno == errno.ENOSYS
else:
    raise AssertionError("hard links are not refused")
spark = local_session("volume", conf={"spark.sql.shuffle.partitions": "1"})
names = {"__name__": "__main__", "spark": spark, "folder": str(folder)}
exec(compile(notebook.read_text(), str(notebook), "exec"), names)
print("read", sorted((row["sensor"], row["count"]) for row in names["read"].collect()))
spark.stop()
"""


@pytest.mark.jvm
@pytest.mark.skipif(platform.machine() not in CALLS, reason="the numbers of its system calls are not known")
def test_a_notebook_runs_as_written_without_hard_links(tmp_path: Path) -> None:
    """The table, the checkpoint and the output of the notebook are complete, and a warning says which locations are
    safe.
    """
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), str(NOTEBOOK)],
        capture_output=True,
        text=True,
        env={**os.environ, **QUICK_START, "PYTHONPATH": str(ROOT)},
        timeout=170,
    )
    assert done.returncode == 0, done.stderr
    assert "read [('boiler', 3600), ('hall', 720), ('roof', 360)]" in done.stdout
    (folder,) = tmp_path.glob("own_source_*")
    table = DeltaTable(str(folder / "split_watermarks")).to_pyarrow_table().to_pylist()
    assert sum(row["rows"] for row in table) == 4680
    batches = {row["batch"] for row in table}
    assert len(batches) == len(list((folder / "checkpoint" / "commits").glob("[0-9]*"))) > 3
    assert "has no hard links" in done.stderr
    assert "safe as long as one source writes" in done.stderr
