"""``status`` and ``StatusListener`` show how many offsets a source is behind the latest ones. Spark gives a Python
source no way to report that. No JVM.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest

from tests.spark.support.driven_query import DrivenQuery
from tests.watermark_alignment.support.progress_events import progress
from watermark_alignment import StatusListener
from watermark_alignment.__main__ import main
from watermark_alignment.formatting import data_size

Make = Callable[..., DrivenQuery]


def test_status_has_the_metric_names_of_spark_s_kafka_source(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    query = make({"a": list(range(1000, 1100)), "b": list(range(1000, 1040))})
    for _ in range(3):
        query.batch(20)
    assert query.coordinator._recorder is not None
    query.coordinator._recorder.flush()
    table = str(query.table)
    assert main(["status", table, "--json"]) == 0
    [split, _] = json.loads(capsys.readouterr().out)
    read = sum(map(len, query.batches[:2]))
    assert split["maxOffsetsBehindLatest"] + split["minOffsetsBehindLatest"] == 140 - read
    assert split["avgOffsetsBehindLatest"] == (140 - read) / 2
    assert split["estimatedTotalBytesBehindLatest"] > 0
    assert main(["status", table]) == 0
    assert f"source memory was {140 - read} offsets behind the latest, about " in capsys.readouterr().out


@pytest.mark.parametrize("latest", [{"a": 100, "b": 7}, json.dumps({"a": 100, "b": 7})])
def test_the_listener_reads_offsets_behind_from_the_progress(
    make: Make, caplog: pytest.LogCaptureFixture, latest: object
) -> None:
    """The listener computes how far a source is behind from Spark's progress, also for a query without alignment,
    which has no table.
    """
    caplog.set_level(logging.INFO)
    query = make({"a": [1] * 100, "b": [1] * 7}, aligned=False)
    query.batch(20)
    position = {name: entry[0] for name, entry in query.offset["splits"].items()}
    event = progress(None, query.offset, latest=latest)
    StatusListener().onQueryProgress(event)
    behind = 107 - sum(position.values())
    least, greatest = sorted((100 - position["a"], 7 - position["b"]))
    said = f"{behind} offsets behind the latest (avg {behind / 2:.1f}, min {least}, max {greatest})"
    assert said in caplog.text
    StatusListener().onQueryProgress(progress(None, query.offset, latest=position))
    assert ", 0 offsets behind the latest;" in caplog.text


def test_the_listener_has_the_bytes_behind_from_the_table(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    query = make({"a": list(range(1000, 1100))})
    listener = StatusListener(str(query.table), look_every="0", clock=query.clock)
    assert query.coordinator._recorder is not None
    for _ in range(4):
        query.batch(20)
        query.coordinator._recorder.flush()
        listener.onQueryProgress(progress(None, query.offset, latest={"a": 100}))
    [size] = listener._row_bytes.values()
    assert size is not None
    said = f"40 offsets behind the latest, about {data_size(round(40 * size))} (avg 40.0, min 40, max 40)"
    assert said in caplog.text
