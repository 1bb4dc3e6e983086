"""What Spark 4.2 does with options, schema, errors and the reading half of a Python streaming source."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.functions import col

from flip27_stream.testing import wait_until
from tests.spark.support.sources.probe_source import Probe, Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Probe]:
    def probe(**behaviour: object) -> Probe:
        made = Probe(tmp_path / tmp_path.name, **behaviour)  # type: ignore[arg-type]
        made.make_available(3)
        return made

    return probe


def test_planning_and_reading_are_different_processes(
    spark: SparkSession, make: Callable[..., Probe]
) -> None:
    """Fact 16: one process plans and another one reads, so everything that a task needs must be in its
    InputPartition.
    """
    probe = make()
    probe.start(probe.load(spark), availableNow=True).awaitTermination()
    (planner,) = {call.pid for call in probe.calls("latestOffset", "partitions")}
    (read,) = probe.calls("read")
    assert read.arguments == {"range": [0, 3], "planned": False}
    assert read.pid != planner


def test_a_self_union_reads_everything_twice_through_one_planner(
    spark: SparkSession, make: Callable[..., Probe]
) -> None:
    """Fact 18: a self-union has one planner and reads each range twice. This is why a range is reported and counted
    once.
    """
    probe = make()
    stream = probe.load(spark)
    probe.start(stream.union(stream), availableNow=True).awaitTermination()
    assert len({call.pid for call in probe.calls("latestOffset")}) == 1
    assert [call.arguments["end"] for call in probe.calls("partitions")] == [{"n": 3}] * 2
    assert [call.arguments["range"] for call in probe.calls("read")] == [[0, 3]] * 2


def test_a_self_join_has_two_planners_of_one_data_source(
    spark: SparkSession, make: Callable[..., Probe]
) -> None:
    """Fact 18: a self-join has two planners of one data source, and nothing drawn in the data source tells the two
    apart. This is why planners draw lineages.
    """
    probe = make()
    stream = probe.load(spark)
    joined = stream.alias("a").join(stream.alias("b"), col("a.n") == col("b.n"))
    inits = len(probe.calls("__init__"))
    probe.start(joined, availableNow=True).awaitTermination()
    assert len({call.pid for call in probe.calls("latestOffset")}) == 2
    assert len(probe.calls("__init__")) == inits


def test_option_keys_arrive_in_lower_case(spark: SparkSession, make: Callable[..., Probe]) -> None:
    """Fact 22: Spark passes the names of options in lower case. The canonical spelling comes from this project's own
    table.
    """
    probe = make()
    probe.load(spark, startingOffsets="Latest", failOnDataLoss="x")
    assert probe.calls("__init__")[0].arguments["options"] == {
        "startingoffsets": "Latest",
        "failondataloss": "x",
    }


@pytest.mark.parametrize("method", ["__init__", "schema"])
def test_errors_of_the_data_source_show_at_load(
    spark: SparkSession, make: Callable[..., Probe], method: str
) -> None:
    """Fact 23: ``load()`` raises errors of ``__init__`` and ``schema``. This is why options are checked in
    ``__init__``.
    """
    with pytest.raises(AnalysisException, match=f"ValueError: failure made in {method}"):
        make(fails_in=method).load(spark)


@pytest.mark.parametrize("method", ["initialOffset", "latestOffset", "partitions"])
def test_errors_of_planning_show_in_the_query(
    spark: SparkSession, make: Callable[..., Probe], method: str
) -> None:
    """Fact 23: the error of the query has class name and text of an error of planning, as the last line of a
    traceback.
    """
    probe = make(fails_in=method)
    with pytest.raises(StreamingQueryException, match=f"ValueError: failure made in {method}"):
        probe.start(probe.load(spark)).awaitTermination()


def test_errors_of_stream_reader_are_hidden(spark: SparkSession, make: Callable[..., Probe]) -> None:
    """Fact 23: Spark replaces an error of ``streamReader`` by an UnboundLocalError. This is why this project's
    ``streamReader`` raises nothing.
    """
    probe = make(fails_in="streamReader")
    with pytest.raises(StreamingQueryException, match="UnboundLocalError"):
        probe.start(probe.load(spark)).awaitTermination()


def test_a_schema_of_the_user_is_not_checked(spark: SparkSession, make: Callable[..., Probe]) -> None:
    """Fact 25: Spark does not compare a schema of the user with that of the source. This is why the source does
    it.
    """
    probe = make()
    probe.load(spark)
    probe.forget_calls()
    stream = spark.readStream.format(probe.name).schema("other string").load()
    assert stream.columns == ["other"]
    assert probe.methods("schema") == []
    with pytest.raises(StreamingQueryException, match="DATA_SOURCE_RETURN_SCHEMA_MISMATCH"):
        probe.start(stream).awaitTermination()
    assert {call.arguments["schema"] for call in probe.calls("streamReader")} == {"struct<other:string>"}


def _columns(**columns: pa.Array) -> Rows:
    return lambda start, end: pa.RecordBatch.from_pydict(columns)


def test_arrow_batches_of_the_declared_types_are_taken(
    spark: SparkSession, make: Callable[..., Probe]
) -> None:
    """Fact 26: Spark accepts Arrow batches of the declared types."""
    times = pa.array([0], pa.timestamp("us", "UTC"))
    rows = _columns(a=pa.array(["a"], pa.string()), b=times, c=pa.array([b"a"], pa.binary()))
    probe = make(schema="a string, b timestamp, c binary", rows=rows)
    probe.start(probe.load(spark), availableNow=True).awaitTermination()
    assert probe.logged("commits") == [0]


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        ("n string", pa.array(["a"], pa.large_string())),
        ("n string", pa.array(["a"]).dictionary_encode()),
        ("n timestamp", pa.array([0], pa.timestamp("us", "Etc/UTC"))),
        ("n timestamp", pa.array([0], pa.timestamp("ms", "UTC"))),
        ("n binary", pa.array([b"a"], pa.binary_view())),
        ("m string", pa.array(["a"])),
    ],
)
def test_any_other_arrow_batch_is_refused(
    spark: SparkSession, make: Callable[..., Probe], schema: str, column: pa.Array
) -> None:
    """Fact 26: Spark refuses Arrow batches with large, view or dictionary types, or with another unit, zone or
    name.
    """
    probe = make(schema=schema, rows=_columns(n=column))
    with pytest.raises(StreamingQueryException, match="DATA_SOURCE_RETURN_SCHEMA_MISMATCH"):
        probe.start(probe.load(spark), availableNow=True).awaitTermination()


def test_registration_takes_class_attributes_by_value(spark: SparkSession, tmp_path: Path) -> None:
    """Fact 27: registration takes the attributes of a data source class by value. So the driver's address and a
    source made in code reach the planner. A later registration with the same name replaces the class for later
    DataFrames.
    """
    one, other = (Probe(tmp_path / n / tmp_path.name) for n in ("one", "other"))
    old = one.load(spark)
    new = other.load(spark)
    assert one.name == other.name
    for probe, stream in ((one, old), (other, new)):
        query = probe.start(stream)
        wait_until(partial(probe.has_logged, "commits", query), "batch 0")
        query.stop()
        assert probe.calls("latestOffset")
