"""Tests of hybrid sources that read a history and then Kinesis, on an emulator and without a JVM."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.hybrid import HybridSource, SourceSwitchContext
from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.connectors.kinesis.records.columns import ARRIVAL
from flip27_stream.errors import AlignmentError, OptionError
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.testing import KinesisServer
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.hybrid.support.kit import OLD, Logs, history
from tests.connectors.kinesis.support.kit import QUICK, numbered
from watermark_alignment.options import AlignmentOptions

pytestmark = pytest.mark.node


def as_history(records: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows of a stream with the columns of the history."""
    times = records[ARRIVAL].cast(pa.int64())
    return pa.RecordBatch.from_arrays([records["data"].cast(pa.string()), times], ["split", "event_time"])


def live(options: Mapping[str, str], switch: SourceSwitchContext) -> KinesisSource:
    return KinesisSource({**options, "initialPosition": f'{{"at_timestamp": {switch.start_time_ms}}}'})


def chain(server: KinesisServer, stream: str, logs: Logs, **more: Any) -> HybridSource:
    """Returns a hybrid source of a history, and then of the stream from the time at which the history ends."""
    options = {**server.options, **QUICK, "streamName": stream, "maxRecordsPerTrigger": "5"}
    builder = HybridSource.builder(history("old", logs), event_time="event_time")
    return builder.add_source(partial(live, options), **more).build()


@pytest.mark.parametrize("logs", [{}, OLD], ids=["empty history", "history of 1970"])
def test_the_stream_is_read_from_its_beginning_after_a_history_that_is_older(
    kinesis: KinesisServer, stream: str, logs: Logs
) -> None:
    kinesis.create_stream(stream, 2)
    kinesis.put(stream, numbered(0, 20, 2))
    old = [name for name, times in logs.items() for _ in times]
    source = chain(kinesis, stream, logs, converter=as_history)
    with SourceQuery(source) as query:
        rows = query.run(20 + len(old))
    assert sorted(row["split"] for row in rows) == sorted([*old, *map(str, range(20))])


@pytest.mark.parametrize("event_time", [None, ARRIVAL])
def test_an_aligned_stream_with_a_converter_needs_the_arrival_time(
    kinesis: KinesisServer, stream: str, tmp_path: Path, event_time: str | None
) -> None:
    """The error at the switch names the argument that is missing."""
    kinesis.create_stream(stream, 2)
    kinesis.put(stream, numbered(0, 20, 2))
    source = chain(kinesis, stream, OLD, converter=as_history, event_time=event_time)
    alignment = AlignmentOptions.parse(
        {
            "scan.watermark.alignment.group": "g",
            "scan.watermark.alignment.max-drift": "1 day",
            "scan.watermark.alignment.table": str(tmp_path / "table"),
        }
    )
    strategy = WatermarkStrategy(timestamp_assigner=timestamp_assigner("event_time", source.schema))
    with SourceQuery(source, strategy=strategy, alignment=alignment) as query:
        if event_time is not None:
            assert len(query.run(25)) == 25
            return
        with pytest.raises(
            AlignmentError, match=r'add_source\(\.\.\., event_time="approximateArrivalTimestamp"\)'
        ):
            query.run(25)


def test_the_trial_of_a_factory_finds_columns_and_limits(kinesis: KinesisServer, stream: str) -> None:
    """The factory has the form of the pages. No stream is needed for it."""
    found = chain(kinesis, stream, OLD, converter=as_history, event_time=ARRIVAL)
    assert found.read_limits.max_rows == 5
    with pytest.raises(OptionError, match=r"column 'split' \(string\) is missing"):
        chain(kinesis, stream, OLD)
