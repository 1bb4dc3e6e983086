"""Records with an implausible event time are counted in the split-watermark table and in the status. No JVM."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest
from deltalake import DeltaTable

from tests.spark.support.driven_query import NOW, DrivenQuery
from watermark_alignment.__main__ import main
from watermark_alignment.table.batch_note import KEY, BatchNote

Make = Callable[..., DrivenQuery]


def test_skipped_records_are_counted_in_the_table_and_in_the_status(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rule 6: skipped records are counted by split. The commit with the rows of a batch has the counts of the batch,
    and ``status`` shows those of the run.
    """
    far = NOW + 4_000_000
    query = make(
        {"a": [1000, far, far, 1001], "b": [1000, far]}, **{"scan.watermark.implausible_event_time": "skip"}
    )
    while query.step(limit=2):
        pass
    query.world.logs["a"] += [far, 1002]
    while query.step(limit=2):
        pass
    query.step(limit=2)
    assert sum(map(len, query.batches)) == 4
    assert query.coordinator._recorder is not None
    query.coordinator._recorder.flush()
    assert main(["status", str(query.table), "--json"]) == 0
    query.coordinator.close()
    assert {s["split"]: s["implausible"] for s in json.loads(capsys.readouterr().out)} == {"a": 3, "b": 1}
    commits = [c for c in DeltaTable(str(query.table)).history() if KEY in c]
    notes = [BatchNote.from_text(c[KEY]) for c in commits]
    assert sum((Counter(note.implausible) for note in notes), Counter()) == {"a": 3, "b": 1}
    assert sum(int(c.get("implausible", 0)) for c in commits) == 4
