"""Batches that are inserted in any order, also twice, cover the same offsets, and do not overlap."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.kafka.event_time.ordered_batches import BATCH, OrderedBatches

LOGS = 3
SPANS = st.lists(st.tuples(st.integers(0, LOGS - 1), st.integers(0, 40), st.integers(1, 12)), max_size=20)


@given(SPANS)
def test_ordered_batches_cover_what_was_inserted(spans: list[tuple[int, int, int]]) -> None:
    batches = np.zeros(len(spans), BATCH)
    for row, (log, start, size) in enumerate(spans):
        batches[row]["log"], batches[row]["start"], batches[row]["stop"] = log, start, start + size
    ordered = OrderedBatches.of(batches, LOGS)
    assert len(ordered.begins) == LOGS + 1
    assert ordered.begins[-1] == len(ordered.batches) == len(ordered.run_ends)
    for log in range(LOGS):
        rows = ordered.batches[ordered.begins[log] : ordered.begins[log + 1]]
        assert (rows["log"] == log).all()
        assert (rows["start"] < rows["stop"]).all()
        assert (rows["stop"][:-1] <= rows["start"][1:]).all()
        wanted = {at for of, start, size in spans if of == log for at in range(start, start + size)}
        assert {at for row in rows for at in range(row["start"], row["stop"])} == wanted
        ends = ordered.run_ends[ordered.begins[log] : ordered.begins[log + 1]] - ordered.begins[log]
        for at, end in enumerate(ends):
            run = range(at, end)
            assert all(rows["stop"][i] == rows["start"][i + 1] for i in run[:-1])
            assert end == len(rows) or rows["stop"][end - 1] < rows["start"][end]
