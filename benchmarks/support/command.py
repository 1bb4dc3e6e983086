"""The command line that all benchmarks share."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console

from benchmarks.support.environment import Environment, Sizes
from benchmarks.support.results import Result, table

Measure = Callable[[Environment], Iterator[Result]]

_LEAST_WIDTH = 150


def run(measures: Sequence[Measure], arguments: Sequence[str] | None = None) -> None:
    """Runs benchmarks in one environment, prints each result as soon as it is found, and the table at the end."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for size in dataclasses.fields(Sizes):
        parser.add_argument(f"--{size.name.replace('_', '-')}", type=int, default=size.default)
    sizes = Sizes(**vars(parser.parse_args(arguments)))
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
