"""A query that is killed (SIGKILL) in the middle of tasks.

It runs as ``python -m tests.spark.support.programs.killed_reader FOLDER``.
The folder has ``logs``. The reader of the file worker.log kills its Python worker once. The reader of executor.log
kills the executor that has started its worker.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import flip27_stream
from examples.log_folder import LogFile, LogFolder, read_lines
from flip27_stream.api import SourceReaderContext
from flip27_stream.reader import (
    ArrowRecordEmitter,
    IteratorSplitReader,
    SingleThreadFetcherManager,
    SourceReaderBase,
)
from flip27_stream.testing import local_session
from tests.spark.support.processes import QUICK_JAVA, parent

ROWS_BEFORE = 100
TIME_LIMIT_S = 30
WORKER, EXECUTOR = "worker", "executor"


def murder(victim: str, folder: Path) -> None:
    """Kills this Python worker, or the executor that has started it, but only the first time."""
    try:
        (folder / f"{victim} killed").touch(exist_ok=False)
    except FileExistsError:
        return
    worker = os.getpid()
    daemon = parent(worker)
    os.kill(worker if victim == WORKER else parent(daemon), signal.SIGKILL)
    time.sleep(TIME_LIMIT_S)
    raise AssertionError(f"the {victim} does not die")


def lines(split: LogFile) -> Iterator[dict[str, object]]:
    path = Path(split.path)
    for number, row in enumerate(read_lines(split)):
        if number == ROWS_BEFORE:
            murder(path.stem, path.parents[1])
        yield row


@dataclass(frozen=True)
class DangerousFolder(LogFolder):
    def create_reader(  # type: ignore[override]
        self, context: SourceReaderContext
    ) -> SourceReaderBase[LogFile]:
        """Returns a reader with fetches so small that some rows have reached Spark when the process is killed."""

        def make() -> IteratorSplitReader[LogFile]:
            return IteratorSplitReader(lines, fetch_rows=10)

        return SourceReaderBase(context, SingleThreadFetcherManager(make), ArrowRecordEmitter(self.schema))


def main(folder: str) -> None:
    path = Path(folder)
    quick = {"spark.executor.extraJavaOptions": QUICK_JAVA}
    # Executors work in folders of their own, where the example would not be found.
    found = {"spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[4])}
    spark = local_session("killed-reader", master="local-cluster[2,1,1024]", conf=quick | found)
    source = DangerousFolder(str(path / "logs"))
    spark.dataSource.register(flip27_stream.data_source(source, name="dangerous"))
    writer = spark.readStream.format("dangerous").load().writeStream.format("parquet")
    query = (
        writer.option("checkpointLocation", str(path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(path / "output"))
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
