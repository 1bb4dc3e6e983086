"""A query that follows a Delta table while Spark writes it, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tests.connectors.files.support.delta_statements import CHANGES, Step
from tests.connectors.files.support.delta_tables import query
from tests.connectors.files.support.spark_tables import Rows, SparkTable


class Following:
    """A query that follows a table over restarts, and skips commits that change rows."""

    def __init__(self, table: SparkTable) -> None:
        self._table = table
        self._before: Rows = []
        self._reading: Any = None

    def agrees(self, *, only_adds: bool) -> None:
        """Checks that a snapshot has Spark's rows, and that the query reads on. If the table only got new rows, the
        query reads exactly these.
        """
        now = self._table.rows()
        assert counted(self._table.read()) == counted(now)
        if self._reading is None:
            self._reading = query(self._table.path, skipChangeCommits="true")
        else:
            self._reading.restart()
        known = len(self._reading.rows)
        self._reading.run()
        if only_adds:
            names = list(now[0]) if now else []
            before = [{name: row.get(name) for name in names} for row in self._before]
            assert counted(self._reading.rows[known:]) == counted(now) - counted(before)
        self._before = now


def check_rows_of_each_step(table: SparkTable, steps: Sequence[Step]) -> None:
    """Checks, after each step, that a snapshot has Spark's rows, and that a query that follows the table reads on."""
    following = Following(table)
    for step in steps:
        table(*(statement for statement in step if statement != CHANGES))
        following.agrees(only_adds=step[0] != CHANGES)


def counted(found: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in found)
