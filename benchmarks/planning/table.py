"""Measures the costs of the split-watermark table over many batches: ``python -m benchmarks.planning.table [batches]``.

It writes through :class:`SplitWatermarkTable` with maintenance, at retention 0 and with 4 to 8 splits a batch. It
prints the time (ms) of a commit at the start and at the end, and the number of files that are left.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from deltalake import DeltaTable

from benchmarks.support.folders import temporary_folder
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.split_rows import SCHEMA, SplitRow
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

_START_MS = 1_700_000_000_000


def split_rows(batch: int) -> list[SplitRow]:
    """Returns the rows of a simulated batch, one second after the previous batch."""
    now, start = _START_MS + batch * 1000, batch * 100
    return [
        SplitRow(
            "web",
            "clicks",
            f"c-{i}",
            batch,
            f"{start}",
            f"{start + 100}",
            100,
            now - 1,
            now,
            "ACTIVE",
            i,
            now,
        )
        for i in range(4 + batch % 5)
    ]


def simulate(path: Path, batches: int) -> tuple[list[float], list[float]]:
    """Returns the time (s) of every commit and of every round of maintenance."""
    keep_nothing = {"delta.logRetentionDuration": "interval 0 seconds"}
    keep_nothing["delta.deletedFileRetentionDuration"] = "interval 0 seconds"
    DeltaTable.create(str(path), SCHEMA, configuration=keep_nothing)
    table = SplitWatermarkTable(str(path), {})
    maintenance = Maintenance(table, clock=lambda: _START_MS + batches * 1000)
    table.open()
    commits, rounds = [], []
    for batch in range(batches):
        rows = split_rows(batch)
        start = time.perf_counter()
        table.append("clicks/simulated", batch, rows, {"watermark": str(batch)})
        middle = time.perf_counter()
        maintenance.committed(table.delta.version())
        commits.append(middle - start)
        rounds.append(time.perf_counter() - middle)
    return commits, [seconds for seconds in rounds if seconds > 0.001]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.planning.table",
        description="Measures the costs of the split-watermark table over many batches.",
    )
    parser.add_argument("batches", type=int, nargs="?", default=10_000, help="batches written (%(default)s)")
    batches = parser.parse_args().batches
    with temporary_folder() as folder:
        path = Path(folder) / "table"
        commits, rounds = simulate(path, batches)
        log = list((path / "_delta_log").iterdir())
        first, last = statistics.median(commits[:200]), statistics.median(commits[-200:])
        print(f"batches                      {batches:10,}")
        print(f"rows                         {SplitWatermarkTable(str(path), {}).rows().num_rows:10,}")
        print(f"ms a commit, first 200       {1000 * first:10.2f}")
        print(f"ms a commit, last 200        {1000 * last:10.2f}   {last / first:.2f} times the first")
        print(f"ms a round of maintenance    {1000 * statistics.median(rounds):10.2f}   {len(rounds)} rounds")
        print(f"active data files            {len(DeltaTable(str(path)).file_uris()):10,}")
        print(f"data files on disk           {len(list(path.glob('*.parquet'))):10,}")
        print(f"log files on disk            {len(log):10,}")


if __name__ == "__main__":
    main()
