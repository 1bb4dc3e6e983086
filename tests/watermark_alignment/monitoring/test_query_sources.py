"""Which sources of a query are aligned with each other, told batch by batch. No JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from watermark_alignment.monitoring.progress import SourceProgress
from watermark_alignment.monitoring.query_sources import QuerySources
from watermark_alignment.table.offsets_behind import OffsetsBehind

PROGRESS: Mapping[str, Any] = {"id": "q", "name": "q", "batchId": 3, "sources": []}
DROPPED: Mapping[str, Any] = {**PROGRESS, "stateOperators": [{"numRowsDroppedByWatermark": 7}]}


def source(lineage: str, read_max: Sequence[int]) -> SourceProgress:
    return SourceProgress(lineage, lineage, 2, 2, read_max, 0, OffsetsBehind())


def remedy(*batches: Sequence[SourceProgress], groups: Mapping[str, str]) -> str:
    """Returns the warning of a query that drops rows in its last batch."""
    sources = QuerySources()
    for batch in batches[:-1]:
        sources.take_in(PROGRESS, batch)
    sources.take_in(DROPPED, batches[-1])
    (finding,) = sources.dropped(groups)
    return finding.text


def test_a_source_whose_first_batch_had_no_event_times_is_aligned() -> None:
    """Without positions by event time, planning knows no event time before the first report."""
    text = remedy([source("a", ())], [source("a", (5,))], [source("a", (6,))], groups={"a": "g"})
    assert "A delay of withWatermark that is longer" in text
    assert "not aligned" not in text


def test_a_source_of_the_table_is_aligned_though_no_event_time_of_it_is_known() -> None:
    text = remedy([source("a", (5,)), source("b", ())], groups={"a": "g", "b": "g"})
    assert "A delay of withWatermark that is longer" in text


def test_a_source_that_never_has_event_times_is_named() -> None:
    text = remedy([source("a", (5,)), source("b", ())], groups={"a": "g"})
    assert "It has sources that are not aligned with the others: b. " in text
