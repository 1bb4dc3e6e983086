"""Row limits of up to 1,000 records are kept, however few records a page of the service has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flip27_stream.connectors.kinesis.planning import shard_log
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.wall_clock import now_ms
from tests.connectors.kinesis.support.kit import numbers_of
from tests.connectors.kinesis.support.memory_service import MemoryService, MemoryShard, numbered_records
from watermark_alignment.options import AlignmentOptions

LIMIT, SLOW, BURST = 100, 40, 400


def short_pages(operation: str, asked: dict[str, Any]) -> Any:
    """Answers with three records, as the service does where these are large."""
    asked |= {"Limit": min(asked["Limit"], 3)} if operation == "GetRecords" else {}


def slow_then_fast(first: int) -> MemoryShard:
    """Returns a shard with a record a second, then many in a millisecond, so that its rate says nothing of them."""
    began = now_ms() - 3_600_000
    slow = numbered_records(SLOW, began, 1000, first=first)
    fast = numbered_records(BURST, began + SLOW * 1000, 0, first=first + SLOW)
    return MemoryShard(slow + fast + numbered_records(1, now_ms() - 60_000, first=first + SLOW + BURST))


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("is_aligned", [True, False])
def test_a_limit_is_kept_where_pages_are_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_aligned: bool, counts: bool
) -> None:
    """If planning has no time to count up to the limit, a micro-batch has fewer records, and never more."""
    if not counts:
        monkeypatch.setattr(shard_log, "_COUNTING_S", 0.001)
    options = {"group": "g", "max-drift": "1 h", "table": str(tmp_path)}
    aligned = AlignmentOptions.parse({f"scan.watermark.alignment.{n}": v for n, v in options.items()})
    service, sizes, numbers = MemoryService(a=slow_then_fast(0), b=slow_then_fast(1000)), [], list[int]()
    with service.running():
        service.fault = short_pages
        source = service.source(maxRecordsPerTrigger=str(LIMIT))
        with SourceQuery(source, alignment=aligned if is_aligned else None) as query:
            while len(numbers) < 2 * (SLOW + BURST + 1):
                query.planned = query.wait_for_batch()
                rows = numbers_of(query.step())
                sizes.append(len(rows))
                numbers += rows
    each = SLOW + BURST + 1
    assert sorted(numbers) == [*range(each), *range(1000, 1000 + each)]
    assert max(sizes) <= LIMIT
    assert not counts or LIMIT in sizes
