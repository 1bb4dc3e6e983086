"""Statements with which Spark makes small Delta tables and adds rows to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.connectors.files.support.spark_tables import at

Step = Sequence[str]
"""Statements, one after the other. Steps that begin with :data:`CHANGES` do more than add rows."""

CHANGES: Final = ""
BY_NAME: Final = "'delta.columnMapping.mode'='name'"
VECTORS: Final = "'delta.enableDeletionVectors'='true'"
WIDENING: Final = "'delta.enableTypeWidening'='true'"
COLUMNS: Final = "(id long, ts timestamp, p int) using delta partitioned by (p)"


def table_with(*properties: str, columns: str = COLUMNS) -> str:
    return f"create table {{t}} {columns} tblproperties ({', '.join(properties)})"


def rows(first: int, last: int, *more: str) -> str:
    return f"insert into {{t}} select {', '.join(('id', at(), *more))} from range({first}, {last})"
