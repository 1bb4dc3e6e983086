"""The Kinesis benchmark runs, at a size that takes seconds."""

from __future__ import annotations

import pytest

from benchmarks.kinesis import run
from flip27_stream.testing.kinesis import skip_reason


@pytest.mark.node
def test_the_benchmark_counts_all_records_and_calls() -> None:
    if (reason := skip_reason()) is not None:
        pytest.skip(reason)
    records = ["--records", "300", "--many-records", "300", "--large-records", "30"]
    table = run(
        [*records, "--shards", "2", "--rounds", "1", "--plans", "2", "--many-shards", "5", "--no-spark"]
    )
    what, counts = ([*column.cells] for column in table.columns[:2])
    assert [count for count in counts if count] == ["300"] * 5 + ["30"] * 3
    assert "calls for each shard and plan" in str(what[2])
    assert "a plan of 5 shards" in str(what[-1])
