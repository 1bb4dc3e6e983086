"""The Delta table that a query writes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError


class Sink:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._table: DeltaTable | None = None

    def rows(self) -> int:
        """How many it has by now; 0 before it is there."""
        try:
            if self._table is None:
                self._table = DeltaTable(str(self.path))
            else:
                self._table.update_incremental()
        except TableNotFoundError:
            return 0
        return sum(pa.table(self._table.get_add_actions(flatten=True))["num_records"].to_pylist())
