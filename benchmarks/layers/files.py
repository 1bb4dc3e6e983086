"""The layers of files: the listing of a folder, the commits of a Delta table, the event times of an ORC file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from pyarrow import orc
from pyarrow.fs import FileSelector, FileType, LocalFileSystem

from benchmarks.layers.pair import compared, times
from benchmarks.support.backlog import START_MS
from benchmarks.support.environment import Environment
from benchmarks.support.folders import temporary_folder
from benchmarks.support.results import Result
from flip27_stream.connectors.files.delta.delta_log import DeltaLog
from flip27_stream.connectors.files.formats.orc import OrcFormat
from flip27_stream.connectors.files.storage.filesystem import Storage
from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.connectors.files.storage.local_listing import LocalWalk

_COMMITS = 20
_FOLDERS = 100


def measure(environment: Environment) -> Iterator[Result]:
    with temporary_folder() as folder:
        yield _listing(environment, Path(folder) / "year")
        yield _commits(environment, Path(folder) / "table")
        yield _stripes(environment, Path(folder) / "events.orc")


def _listing(environment: Environment, year: Path) -> Result:
    """Measures the listing of small files in the folders of a year."""
    files = environment.sizes.year_files
    for number in range(files):
        folder = year / f"{number % _FOLDERS:03d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.json").write_text("{}")
    selector = FileSelector(str(year), recursive=True)

    def beside() -> int:
        infos = LocalFileSystem().get_file_info(selector)
        found = [FoundFile.of(i.path, i.mtime_ns, i.size) for i in infos if i.type == FileType.File]
        return len(found)

    def ours() -> int:
        return len(list(LocalWalk()(str(year))))

    taken = compared(environment, files, beside, ours)
    return times(f"the listing of {files:,} files, beside Arrow's file system", taken)


def _commits(environment: Environment, table: Path) -> Result:
    """Measures the finding of the files that each of the latest versions added."""
    for number in range(_COMMITS + 1):
        write_deltalake(table, pa.table({"number": [number]}), mode="append")
    log = DeltaLog(str(table), Storage(), str(table))

    def beside() -> int:
        versions = [set(DeltaTable(table, version=v).file_uris()) for v in range(_COMMITS + 1)]
        return sum(len(after - before) for before, after in pairwise(versions))

    def ours() -> int:
        return sum(len(log.added(commit)) for commit in log.commits(0))

    taken = compared(environment, _COMMITS, beside, ours)
    return times(f"the files that each of {_COMMITS} commits added, beside delta-rs", taken)


def _stripes(environment: Environment, path: Path) -> Result:
    """Measures the finding of the least event time of each stripe."""
    at = START_MS + np.arange(environment.sizes.records, dtype=np.int64)
    shares = np.random.default_rng(27).random(len(at))
    rows = pa.table({"at": pa.array(at, pa.timestamp("ms")), "share": shares})
    orc.write_table(rows, path, compression="zstd", stripe_size=1 << 20)
    stripes = orc.ORCFile(path).nstripes

    def beside() -> int:
        file = orc.ORCFile(path)
        least = [pc.min(file.read_stripe(n, columns=["at"]).column(0)) for n in range(file.nstripes)]
        return sum(1 for time in least if time.is_valid)

    def ours() -> int:
        return len(OrcFormat().units(LocalFileSystem(), str(path), "at").least)

    work = "event times of the stripes of ORC, beside Arrow's reading of the column"
    return times(work, compared(environment, stripes, beside, ours))
