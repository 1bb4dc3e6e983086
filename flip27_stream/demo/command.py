"""The command of all demos: a command line, a broker, a Spark session and a folder for the output."""

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

from flip27_stream.errors import Flip27Error, message_of
from flip27_stream.testing import KafkaBroker, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUTPUT = Path("demo-output")
LOG = OUTPUT / "spark.log"

_DETAILS = "\n=== Streaming Query ==="
"""What Spark appends to the message of a query that failed: its ids, its offsets and its plan."""

_CONF = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.numRecentProgressUpdates": "10000"}


@dataclass(frozen=True)
class DemoResources:
    """The resources of a demo.

    Attributes:
        console: The terminal.
        broker: A broker without topics.
        spark: A session that keeps the progress of every batch.
        records: The number of records to write.
        rows_per_batch: The number of rows to read in a batch.
        picture: The file of the picture.
    """

    console: Console
    broker: KafkaBroker
    spark: SparkSession
    records: int
    rows_per_batch: int
    picture: Path

    @property
    def folder(self) -> Path:
        """The folder for tables and checkpoints."""
        return OUTPUT.absolute()

    @property
    def watermarks(self) -> str:
        """The path of the split-watermark table."""
        return str(self.folder / "split_watermarks")

    def alignment(self, group: str, max_drift: int) -> dict[str, str]:
        """Returns the options of alignment. ``max_drift`` is in ms."""
        return {
            "scan.watermark.alignment.group": group,
            "scan.watermark.alignment.max-drift": f"{max_drift} ms",
            "scan.watermark.alignment.table": self.watermarks,
        }

    def show(self, result: Table, remark: str = "") -> None:
        """Prints the result and the path of the picture."""
        self.console.print()
        self.console.print(result)
        self.console.print(f"Picture: {self.picture}{remark}")


Demo = Callable[[DemoResources], bool]
"""Runs a demo, and returns whether every row was counted correctly."""


def main(
    module: str, description: str | None, demo: Demo, picture: str, *, records: int, rows_per_batch: int
) -> int:
    """Runs the command of a demo. The output goes to ``./demo-output``, which is emptied first.

    Args:
        module: The module of the command.
        description: The description for ``--help``.
        demo: Runs the demo.
        picture: The file name of the picture.
        records: The default number of records.
        rows_per_batch: The default of ``maxOffsetsPerTrigger``.

    Returns:
        The exit code, which is 0 if the demo succeeded.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--records", type=_count, default=records, help="records written (%(default)s)")
    parser.add_argument(
        "--rows-per-batch", type=_count, default=rows_per_batch, help="read at once (%(default)s)"
    )
    parser.add_argument("--picture", type=_file, help="copy the picture to this path, too")
    options = parser.parse_args()
    from pyspark.errors import PySparkException

    console = Console(highlight=False)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    try:
        OUTPUT.mkdir()
    except OSError as error:
        parser.error(
            f"the folder {OUTPUT.absolute()} for the output cannot be made ({error.strerror}): run the demo in a "
            "folder that you may write to"
        )
    with _standard_error_to(LOG):
        try:
            return 0 if _run(demo, console, OUTPUT / picture, options) else 1
        except KeyboardInterrupt:
            return 130
        except (Flip27Error, PySparkException) as error:
            console.print(f"The demo failed; {LOG} has more.", style="bold red")
            console.print(message_of(error).partition(_DETAILS)[0], markup=False, soft_wrap=True)
            console.print("docs/troubleshooting.md says what to do; search it for the words of the error.")
            return 1


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number > 0, not {text!r}")
    return int(text)


def _file(text: str) -> Path:
    if Path(text).is_dir() or not Path(text).parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a file in a folder that exists, not {text!r}")
    return Path(text)


def _run(demo: Demo, console: Console, picture: Path, options: argparse.Namespace) -> bool:
    console.print("Starting a Kafka broker and Spark ...")
    with KafkaBroker() as broker:
        spark = local_session("flip27-demo", kafka_source=True, conf=_CONF)
        try:
            right = demo(
                DemoResources(console, broker, spark, options.records, options.rows_per_batch, picture)
            )
        finally:
            spark.stop()
    if options.picture is not None:
        shutil.copyfile(picture, options.picture)
    return right


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """Redirects the standard error of this process and its children to a file, to keep the terminal clear."""
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
