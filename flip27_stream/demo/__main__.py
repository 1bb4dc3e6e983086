"""``python -m flip27_stream.demo``: the demo. What it makes goes to ``./demo-output``, emptied first."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from flip27_stream.demo.comparison import PICTURE, compare
from flip27_stream.errors import Flip27Error
from flip27_stream.testing import KafkaBroker, local_session

OUTPUT = Path("demo-output")
LOG = OUTPUT / "spark.log"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 if ``flip27_kafka`` counted every row right."""
    options = _parser().parse_args(arguments)
    from pyspark.errors import PySparkException

    console = Console(highlight=False)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    with _standard_error_to(LOG):
        try:
            return 0 if _run(console, options) else 1
        except KeyboardInterrupt:
            return 130
        except (Flip27Error, PySparkException) as error:
            last_line = str(error).strip().splitlines()[-1]
            console.print(f"The demo failed; {LOG} has more.", style="bold red")
            console.print(last_line, markup=False)
            return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m flip27_stream.demo",
        description="One windowed count of a skewed backlog: Spark's own Kafka source beside flip27_kafka.",
    )
    parser.add_argument("--records", type=int, default=1_200_000, help="records written (%(default)s)")
    parser.add_argument(
        "--rows-per-batch", type=int, default=100_000, help="maxOffsetsPerTrigger of both (%(default)s)"
    )
    parser.add_argument("--picture", type=Path, help="copy the picture to this path, too")
    return parser


def _run(console: Console, options: argparse.Namespace) -> bool:
    console.print("Starting a Kafka broker and Spark ...")
    with KafkaBroker() as broker:
        spark = local_session("flip27-demo", kafka_source=True, conf={"spark.sql.shuffle.partitions": "2"})
        try:
            right = compare(
                console,
                broker,
                spark,
                records=options.records,
                rows_per_batch=options.rows_per_batch,
                output=OUTPUT,
            )
        finally:
            spark.stop()
    if options.picture is not None:
        shutil.copyfile(OUTPUT / PICTURE, options.picture)
    return right


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """Send what this process and its children say on standard error to a file."""
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


if __name__ == "__main__":
    sys.exit(main())
