"""The command line that all benchmarks share."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType

from rich.console import Console

from benchmarks.support.environment import Environment, Sizes
from benchmarks.support.results import Result, table

Measure = Callable[[Environment], Iterator[Result]]

_LEAST_WIDTH = 150


def run(measures: Sequence[Measure], arguments: Sequence[str] | None = None) -> None:
    """Runs benchmarks in one environment, prints each result as soon as it is found, and the table at the end."""
    sizes = Sizes(**vars(_parser(sys.modules["__main__"]).parse_args(arguments)))
    console = Console(width=max(_LEAST_WIDTH, Console().width))
    title = f"Medians of {sizes.pairs} pairs, local[2] on {os.cpu_count()} cores, {sizes.records:,} records"
    results: list[Result] = []
    try:
        with Environment(sizes) as environment:
            began = time.monotonic()
            for measure in measures:
                for result in measure(environment):
                    results.append(result)
                    minutes = (time.monotonic() - began) / 60
                    print(f"{minutes:4.1f} min  " + "  ".join(result.cells()), file=sys.stderr, flush=True)
    finally:  # results from before an error are printed too
        console.print(table(results, title))


def _parser(module: ModuleType) -> argparse.ArgumentParser:
    """Returns the parser of a command. ``module`` is the one that Python runs, whose first lines describe it."""
    name = module.__spec__.name.removesuffix(".__main__") if module.__spec__ else sys.argv[0]
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}", description=(module.__doc__ or "").partition("\n\n")[0].replace("``", "")
    )
    for size in dataclasses.fields(Sizes):
        parser.add_argument(
            f"--{size.name.replace('_', '-')}",
            type=_count,
            default=size.default,
            metavar="NUMBER",
            help=f"{size.metadata['help']} (%(default)s)",
        )
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number, not {text!r}")
    return int(text)
