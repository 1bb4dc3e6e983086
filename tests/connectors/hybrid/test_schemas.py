"""All sources of a hybrid source have one schema; the build of the source names each column that is wrong. No JVM."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flip27_stream.api import (
    ReaderOutput,
    ReadLimits,
    RecordTimestampAssigner,
    SourceOutput,
    SourceReader,
    SourceReaderContext,
)
from flip27_stream.connectors.hybrid import HybridSource, SourceSwitchContext
from flip27_stream.errors import OptionError, RecordFormatError
from tests.connectors.hybrid.support.kit import HybridQuery, NotingFactory, history, live
from tests.spark.support.sources.memory_source import MemoryReader, MemorySource, MemoryWorld

OTHER = pa.schema([("name", pa.string()), ("at", pa.timestamp("ms")), ("extra", pa.int8())])


class OtherReader(MemoryReader):
    """A reader that emits the rows of a log with other columns."""

    def poll_next(self, output: ReaderOutput) -> Any:
        return super().poll_next(_Renamed(output))


class _Renamed(ReaderOutput):
    def __init__(self, output: ReaderOutput | SourceOutput) -> None:
        self._output = output

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        assert isinstance(self._output, ReaderOutput)
        return _Renamed(self._output.create_output_for_split(split_id))

    def release_output_for_split(self, split_id: str) -> None:
        raise NotImplementedError

    def collect(self, records: pa.RecordBatch, timestamps: Any = None, positions: Any = None) -> None:
        times = records["event_time"].cast(pa.timestamp("ms"))
        columns = [records["split"], times, pa.nulls(len(records), pa.int8())]
        self._output.collect(pa.RecordBatch.from_arrays(columns, schema=OTHER), None, positions)


class OtherSource(MemorySource):
    @property
    def schema(self) -> pa.Schema:
        return OTHER

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        return OtherReader(self.world)


def other(**logs: list[int | None]) -> OtherSource:
    return OtherSource(MemoryWorld(dict(logs)), fingerprint="other")


def convert(records: pa.RecordBatch) -> pa.RecordBatch:
    times = records["at"].cast(pa.int64())
    return pa.RecordBatch.from_arrays([records["name"], times], names=["split", "event_time"])


def late(records: pa.RecordBatch) -> pa.RecordBatch:
    return records.filter(pc.greater(records["event_time"], 100))


@pytest.mark.parametrize("deferred", [False, True])
def test_a_mismatch_fails_at_the_start_and_names_the_columns(deferred: bool) -> None:
    builder = HybridSource.builder(history("old", {}))
    with pytest.raises(OptionError) as error:
        builder.add_source((lambda switch: other()) if deferred else other())
    text = str(error.value)
    for part in (
        "Source 1 of the hybrid source (other)",
        "column 'split' (string) is missing",
        "column 'event_time' (int64) is missing",
        "column 'at' (timestamp[ms]) is not a column of the hybrid source",
        "a converter to (split string, event_time int64)",
    ):
        assert part in text


def test_a_column_of_another_type_is_named() -> None:
    wrong = history("old", {}), other()
    builder = HybridSource.builder(
        wrong[0], converter=lambda r: r.rename_columns(["name", "at"]), event_time="event_time"
    )
    with pytest.raises(OptionError, match=r"column 'at' is timestamp\[ms\], not int64; column 'extra'"):
        builder.add_source(wrong[1])


def test_a_factory_that_fails_with_end_0_is_tried_with_the_present_time() -> None:
    """Otherwise its limits were not used, and wrong columns showed at the switch only."""

    def make(switch: SourceSwitchContext) -> Any:
        assert switch.start_time_ms > 946_684_800_000, "before the year 2000"
        return live("new", {}, limits=ReadLimits(max_rows=5))

    source = HybridSource.builder(history("old", {})).add_source(make, event_time="event_time").build()
    assert source.read_limits.max_rows == 5


def test_a_factory_that_cannot_be_tried_is_checked_at_the_switch(caplog: pytest.LogCaptureFixture) -> None:
    """A factory that needs the enumerator of the source before it is checked at the switch, where
    this enumerator exists. A warning says so when the hybrid source is built.
    """

    def make(switch: SourceSwitchContext) -> Any:
        assert switch.previous_enumerator is not None, "no enumerator"
        return other()

    query = HybridQuery(lambda: HybridSource.builder(history("old", {"o": [1]})).add_source(make).build())
    (warning,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert re.search(r"factory of source 1 .* failed .*no enumerator", warning)
    assert query.step() == [("o", 1)]
    with pytest.raises(OptionError, match="Source 1 of the hybrid source does not have the columns"):
        query.step()


@pytest.mark.parametrize("aligned", [False, True])
def test_converted_rows_of_both_sources_are_one_stream(tmp_path: Path, aligned: bool) -> None:
    """Tasks and plans take the event time from converted rows, also where a source has other columns."""
    source = HybridSource.builder(history("old", {"o": [90, 101, 102]}), converter=late)
    source.add_source(other(n=[103, 104]), converter=convert)
    query = HybridQuery(source.build, tmp_path / "table" if aligned else None)
    assert query.run() == [("o", 101), ("o", 102), ("n", 103), ("n", 104)]


def test_the_assigner_of_the_query_sees_converted_rows(tmp_path: Path) -> None:
    """Alignment asks a source about its own rows, with an assigner that converts them first. A timestamp that the
    source gives with its rows is still known as such.
    """
    old = history("old", {"o": [1]})
    given = old.world.requests
    query = HybridQuery(
        HybridSource.builder(old, converter=late).add_source(live("n", {})).build, tmp_path / "t"
    )
    query.step()
    records = pa.RecordBatch.from_pydict({"split": ["o"], "event_time": [101]}, schema=old.schema)
    assigner = given[0].timestamp_assigner
    assert isinstance(assigner, RecordTimestampAssigner)
    assert assigner.extract_timestamps(records, pa.array([7], pa.int64())).to_pylist() == [7]
    assert assigner.extract_timestamps(records, None).to_pylist() == [101]
    with pytest.raises(OptionError, match="leaves out rows"):
        assigner.extract_timestamps(records.set_column(1, "event_time", pa.array([3])), None)


def test_a_converter_that_gives_other_columns_for_some_rows_is_named() -> None:
    def fickle(records: pa.RecordBatch) -> pa.RecordBatch:
        return records if not len(records) else records.drop_columns(["split"])

    query = HybridQuery(HybridSource.builder(history("old", {"o": [1]}), converter=fickle).build)
    with pytest.raises(RecordFormatError, match=r"Source 0 .*column 'split' \(string\) is missing"):
        query.step()


def test_a_converter_that_fails_on_no_rows_is_named() -> None:
    with pytest.raises(OptionError, match=r"fails on a batch without rows .*KeyError"):
        HybridSource.builder(history("old", {}), converter=lambda r: r["nothing"])


def test_columns_may_come_in_another_order() -> None:
    def swap(records: pa.RecordBatch) -> pa.RecordBatch:
        return records.select(["event_time", "split"])

    source = HybridSource.builder(history("old", {"o": [1]}))
    query = HybridQuery(source.add_source(live("new", {"n": [2]}), converter=swap).build)
    assert query.run() == [("o", 1), ("n", 2)]


def test_limits_are_those_given_or_the_least_of_the_sources() -> None:
    """The limits of a hybrid source are those of its builder, or the least of its sources, also of a source that a
    factory makes on trial.
    """
    old = history("old", {}, limits=ReadLimits(max_rows=7, max_files=3, min_tasks=2))
    made = NotingFactory({})
    new = live("new", {}, limits=ReadLimits(max_rows=9, min_rows=4, max_bytes=50))
    both = HybridSource.builder(old).add_source(lambda switch: new).build().read_limits
    assert both == ReadLimits(max_rows=7, min_rows=4, max_files=3, max_bytes=50)
    assert HybridSource.builder(old).add_source(made).build().read_limits.max_rows == 7
    given = HybridSource.builder(old, limits=ReadLimits(max_rows=100)).add_source(new).build()
    assert given.read_limits == ReadLimits(max_rows=100, max_files=3, max_bytes=50)


@pytest.mark.parametrize("limits", [ReadLimits(max_rows=9, max_files=1), ReadLimits(max_bytes=1)])
def test_limits_that_only_sources_have_are_refused(limits: ReadLimits) -> None:
    """Each source looks for no more files and bytes than it allows itself, so these limits would have no effect."""
    with pytest.raises(OptionError, match=r"max_files or max_bytes, .* Give these limits to its sources"):
        HybridSource.builder(history("old", {}), limits=limits)
