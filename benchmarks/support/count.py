"""Counts the rows of a reader, for benchmarks without Spark."""

from __future__ import annotations

from typing import Any


class Count:
    """Counts what a reader emits."""

    def __init__(self) -> None:
        self.rows = 0

    def create_output_for_split(self, split_id: str) -> Count:
        return self

    def release_output_for_split(self, split_id: str) -> None:
        """All is counted together."""

    def collect(self, records: Any, timestamps: Any = None, positions: Any = None) -> None:
        self.rows += records.num_rows
