"""The frame of every demo: a command line, a broker, a Spark and a folder, and the story that is told with them."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from flip27_stream.errors import Flip27Error
from flip27_stream.testing import KafkaBroker, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUTPUT = Path("demo-output")
LOG = OUTPUT / "spark.log"

_CONF = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.numRecentProgressUpdates": "10000"}


@dataclass(frozen=True)
class Stage:
    """What a story is told with.

    Attributes:
        console: the terminal.
        broker: it has no topics yet.
        spark: it keeps the progress of every batch.
        records: how many are to be written.
        rows_per_batch: how many are to be read at once.
        picture: the file to be drawn.
    """

    console: Console
    broker: KafkaBroker
    spark: SparkSession
    records: int
    rows_per_batch: int
    picture: Path

    @property
    def folder(self) -> Path:
        """Where tables and checkpoints go."""
        return OUTPUT.absolute()

    @property
    def watermarks(self) -> str:
        """The split-watermark table."""
        return str(self.folder / "split_watermarks")

    def alignment(self, group: str, max_drift: int) -> dict[str, str]:
        """The options of alignment; ``max_drift`` is in ms."""
        return {
            "scan.watermark.alignment.group": group,
            "scan.watermark.alignment.max-drift": f"{max_drift} ms",
            "scan.watermark.alignment.table": self.watermarks,
        }

    def show(self, result: Table, remark: str = "") -> None:
        """The end of a story: its result, and where its picture is."""
        self.console.print()
        self.console.print(result)
        self.console.print(f"Picture: {self.picture}{remark}")


Story = Callable[[Stage], bool]
"""Tells it whole; true if every row was counted right."""


def main(
    module: str, description: str | None, story: Story, picture: str, *, records: int, rows_per_batch: int
) -> int:
    """The command of a demo: tell ``story``, which draws ``picture``, in ``./demo-output``, emptied first.

    Args:
        module: whose command it is.
        description: for ``--help``.
        records: how many are written, unless the command says otherwise.
        rows_per_batch: likewise, ``maxOffsetsPerTrigger``.

    Returns:
        The exit code: 0 if the story ended well.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--records", type=int, default=records, help="records written (%(default)s)")
    parser.add_argument(
        "--rows-per-batch", type=int, default=rows_per_batch, help="read at once (%(default)s)"
    )
    parser.add_argument("--picture", type=Path, help="copy the picture to this path, too")
    options = parser.parse_args()
    from pyspark.errors import PySparkException

    console = Console(highlight=False)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    with _standard_error_to(LOG):
        try:
            return 0 if _tell(story, console, OUTPUT / picture, options) else 1
        except KeyboardInterrupt:
            return 130
        except (Flip27Error, PySparkException) as error:
            last_line = str(error).strip().splitlines()[-1]
            console.print(f"The demo failed; {LOG} has more.", style="bold red")
            console.print(last_line, markup=False)
            return 1


def _tell(story: Story, console: Console, picture: Path, options: argparse.Namespace) -> bool:
    console.print("Starting a Kafka broker and Spark ...")
    with KafkaBroker() as broker:
        spark = local_session("flip27-demo", kafka_source=True, conf=_CONF)
        try:
            right = story(Stage(console, broker, spark, options.records, options.rows_per_batch, picture))
        finally:
            spark.stop()
    if options.picture is not None:
        shutil.copyfile(picture, options.picture)
    return right


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """Send what this process and its children say on standard error to a file: the terminal is for the story."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        os.close(terminal)
