"""What the demos have in common: a broker, a Spark, a folder, and a command line."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rich.console import Console

from flip27_stream.demo.quiet import standard_error_to
from flip27_stream.errors import Flip27Error
from flip27_stream.testing import KafkaBroker, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUTPUT = Path("demo-output")
LOG = OUTPUT / "spark.log"


class Story(Protocol):
    """Runs a demo whole; true if every row was counted right."""

    def __call__(
        self,
        console: Console,
        broker: KafkaBroker,
        spark: SparkSession,
        records: int,
        rows_per_batch: int,
        output: Path,
    ) -> bool: ...


@dataclass(frozen=True)
class Demo:
    """One demo.

    Attributes:
        module: whose command it is.
        description: for ``--help``.
        story: what it does.
        picture: file that the story draws, in the folder of the output.
        records: how many are written, unless the command says otherwise.
        rows_per_batch: likewise, ``maxOffsetsPerTrigger``.
        kafka_source: whether Spark's own Kafka source takes part.
    """

    module: str
    description: str
    story: Story
    picture: str
    records: int
    rows_per_batch: int
    kafka_source: bool = False

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """The exit code: 0 if the story ended well. What it makes goes to ``./demo-output``, emptied first."""
        options = self._parser().parse_args(arguments)
        from pyspark.errors import PySparkException

        console = Console(highlight=False)
        shutil.rmtree(OUTPUT, ignore_errors=True)
        OUTPUT.mkdir()
        with standard_error_to(LOG):
            try:
                return 0 if self._run(console, options) else 1
            except KeyboardInterrupt:
                return 130
            except (Flip27Error, PySparkException) as error:
                last_line = str(error).strip().splitlines()[-1]
                console.print(f"The demo failed; {LOG} has more.", style="bold red")
                console.print(last_line, markup=False)
                return 1

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=self.description)
        parser.add_argument("--records", type=int, default=self.records, help="records written (%(default)s)")
        parser.add_argument(
            "--rows-per-batch", type=int, default=self.rows_per_batch, help="read at once (%(default)s)"
        )
        parser.add_argument("--picture", type=Path, help="copy the picture to this path, too")
        return parser

    def _run(self, console: Console, options: argparse.Namespace) -> bool:
        console.print("Starting a Kafka broker and Spark ...")
        conf = {"spark.sql.shuffle.partitions": "2"}
        with KafkaBroker() as broker:
            spark = local_session("flip27-demo", kafka_source=self.kafka_source, conf=conf)
            try:
                right = self.story(console, broker, spark, options.records, options.rows_per_batch, OUTPUT)
            finally:
                spark.stop()
        if options.picture is not None:
            shutil.copyfile(OUTPUT / self.picture, options.picture)
        return right
