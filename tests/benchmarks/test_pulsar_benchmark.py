"""The Pulsar benchmark runs, at a size that takes seconds."""

from __future__ import annotations

import pytest

from benchmarks.pulsar import run
from flip27_stream.testing.pulsar import skip_reason

pytestmark = pytest.mark.jvm


def test_the_benchmark_counts_all_messages() -> None:
    if (reason := skip_reason()) is not None:
        pytest.skip(reason)
    table = run(["--records", "300", "--rounds", "1"])
    assert [*table.columns[1].cells] == ["300"] * 4
