"""A bounded source over a Delta table."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.connectors.files.support.delta_tables import append
from tests.connectors.files.support.file_query import FileQuery


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_bounded_source_reads_the_versions_that_existed_at_its_start(tmp_path: Path, batches: int) -> None:
    """FI-05: a restarted query does not look at later versions. So a later DELETE does not fail it."""
    table = tmp_path / "t"
    for version in range(3):
        append(table, version * 60_000, ids=50 * version)
    options = {"path": str(table), "files.format": "delta", "source.monitor-interval": "0"}
    reading = FileQuery({**options, "maxFilesPerTrigger": "1"}, available_now=False)
    for _ in range(batches):
        assert reading.step()
    append(table, 200_000, ids=1000)
    DeltaTable(str(table)).delete("id = 1000")
    reading.restart()
    while reading.step():
        pass
    assert reading.ids() == dict.fromkeys(range(150), 1)
