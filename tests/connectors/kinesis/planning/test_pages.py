"""What planning takes from the pages of a shard."""

from __future__ import annotations

import time

from flip27_stream.connectors.kinesis.positions import behind
from tests.connectors.kinesis.support.memory_service import (
    FIRST_NUMBER,
    MemoryService,
    MemoryShard,
    numbered_records,
)

NOW = time.time_ns() // 1_000_000
COUNTED = 8 + len("key")
"""The bytes that the service counts for a record beside its data."""


def test_the_size_of_a_row_does_not_count_the_record_before_the_position() -> None:
    """Behind a record, planning reads this record, too, to see whether it still exists."""
    with MemoryService(a=MemoryShard(numbered_records(2, NOW - 60_000), size=1000)).running() as service:
        log = service.log_of("a")
        assert log.look(behind(FIRST_NUMBER), frozen=False).rows == 1
    assert log.bytes_per_row == 1000 + COUNTED
