"""Wrong input, and its errors. Errors of options are raised by ``load()``; all others are in the
StreamingQueryException.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from kafka import KafkaAdminClient, TopicPartition
from pyspark.errors import AnalysisException, StreamingQueryException

from flip27_stream.testing import wait_until
from flip27_stream.testing.free_ports import free_port
from tests.spark.support.kafka_queries import (
    CONTINUOUS,
    SECOND,
    T0,
    TIME_LIMIT_S,
    KafkaQueries,
    Output,
    records,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]

GROUP, MAX_DRIFT, TABLE = (f"scan.watermark.alignment.{name}" for name in ("group", "max-drift", "table"))


def refused(queries: KafkaQueries, stream: DataFrame) -> str:
    """Returns the error message of a query that cannot run."""
    with pytest.raises(StreamingQueryException) as error:
        queries.run(stream)
    return str(error.value)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("startingOfsets", "earliest", ["startingofsets", "'startingOffsets'"]),
        ("scan.watermark.event-time", "tyme", ["event-time", "tyme", "timestamp"]),
    ],
)
def test_a_wrong_option_is_refused_at_load(
    queries: KafkaQueries, option: str, value: str, words: list[str]
) -> None:
    """The error of a wrong option names the option, the value and what is allowed; test_refused_options.py has more.

    The second one is found only with the schema.
    """
    options = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "a", option: value}
    aligned = {GROUP: "g", MAX_DRIFT: "1 s", TABLE: "/nowhere"}
    with pytest.raises(AnalysisException) as error:
        queries.spark.readStream.format("flip27_kafka").options(**options, **aligned).load()
    said = str(error.value)
    assert "OptionError" in said
    assert [word for word in words if word not in said] == []


def test_a_write_is_refused_by_name(queries: KafkaQueries, topic: MakeTopic) -> None:
    """A format that was put in place of ``kafka`` where a query writes: the error is not about options of reads."""
    options = queries.kafka(topic())
    stream = queries.spark.readStream.format("flip27_kafka").options(**options).load().select("value")
    sink = stream.writeStream.format("flip27_kafka").option("checkpointLocation", str(queries.folder / "c"))
    with pytest.raises(StreamingQueryException, match="Format 'flip27_kafka' only reads"):
        sink.option("topic", "t").trigger(availableNow=True).start().awaitTermination(int(TIME_LIMIT_S))
    rows = queries.spark.createDataFrame([(b"a",)], "value binary")
    with pytest.raises(AnalysisException, match="Format 'flip27_kafka' only reads"):
        rows.write.format("flip27_kafka").mode("append").save()


def test_a_schema_that_does_not_fit_is_refused(queries: KafkaQueries, topic: MakeTopic) -> None:
    """Facts 23 and 25: a schema of the user with a wrong type is refused with an error that names the column. Spark
    would hide such an error in ``streamReader``.
    """
    reader = queries.spark.readStream.format("flip27_kafka").options(**queries.kafka(topic()))
    said = refused(queries, reader.schema("value string").load())
    assert "OptionError" in said
    assert "Column 'value' of the schema is string; allowed: binary." in said


def test_an_unreachable_broker_is_named_with_the_time_tried(queries: KafkaQueries) -> None:
    address = f"127.0.0.1:{free_port()}"
    options = {"kafka.bootstrap.servers": address, "kafka.default.api.timeout.ms": "1500"}
    said = refused(queries, queries.stream("a", options))
    assert "UnreachableError" in said
    assert f"No Kafka broker answered at {address} within 1.5 s" in said


@pytest.mark.parametrize("strategy", ["subscribe", "assign"])
def test_a_missing_topic_is_named(queries: KafkaQueries, topic: MakeTopic, strategy: str) -> None:
    there = topic()
    options = {
        "subscribe": {"subscribe": f"{there},none-such"},
        "assign": {"assign": json.dumps({there: [0, 1]})},
    }
    said = refused(queries, queries.stream(there, options[strategy]))
    assert "MissingTopicError" in said
    assert ("none-such" if strategy == "subscribe" else f"{there}-1") in said


@pytest.fixture
def checkpoint(queries: KafkaQueries, topic: MakeTopic) -> tuple[str, Output]:
    """A topic, and the output of a query that has read it."""
    name = topic()
    queries.broker.write(name, records(0, [T0 + i * SECOND for i in range(5)]))
    return name, queries.run(queries.stream(name))


def test_a_checkpoint_of_another_source_is_refused(
    queries: KafkaQueries, checkpoint: tuple[str, Output]
) -> None:
    folder = queries.folder / "texts"
    folder.mkdir()
    files = queries.spark.readStream.format("flip27_files").schema("value string")
    files = files.option("files.format", "text")
    said = refused(queries, files.load(str(folder)))
    assert "ForeignCheckpointError" in said
    assert checkpoint[0] in said
    assert str(folder) in said


def _newer(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"flip27": 99}


def _without_lineage(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "lineage"}


def _negative(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"splits": {split: [-5, *entry[1:]] for split, entry in document["splits"].items()}}


def test_a_checkpoint_that_cannot_be_used_is_refused(
    queries: KafkaQueries, checkpoint: tuple[str, Output]
) -> None:
    """The error of a checkpoint that cannot be used names the field, and the split if it is a field of one."""
    name, output = checkpoint
    last = output.offsets()[-1]
    for damage, words in (
        (_newer, ["NewerCheckpointError", "'flip27'", "99"]),
        (_without_lineage, ["CorruptCheckpointError", "lineage"]),
        (_negative, ["CorruptCheckpointError", "'position' of split", "-5"]),
    ):
        output.rewrite_last_offset(damage(last))
        said = refused(queries, queries.stream(name))
        assert [word for word in words if word not in said] == []


def _delete_records(queries: KafkaQueries, name: str) -> None:
    """Writes records 5 to 9, then deletes all records before record 8."""
    queries.broker.write(name, records(0, [T0 + i * SECOND for i in range(5, 10)]))
    admin = KafkaAdminClient(bootstrap_servers=queries.broker.bootstrap_servers)
    admin.delete_records({TopicPartition(name, 0): 8})
    admin.close()


def _recreate(queries: KafkaQueries, name: str) -> None:
    """Deletes the topic and creates it again, with six other records."""
    queries.broker.delete_topic(name)
    queries.broker.create_topic(name)
    queries.broker.write(name, records(0, [T0 + i * SECOND for i in range(6)]))


Loss = Callable[[KafkaQueries, str], None]


@pytest.mark.parametrize(
    ("lose", "available"), [(_delete_records, "8 to 10"), (_recreate, "0 to 6 of a topic")]
)
def test_lost_records_fail_the_query(
    queries: KafkaQueries, checkpoint: tuple[str, Output], lose: Loss, available: str
) -> None:
    """Lost records fail a query with failOnDataLoss. The error names the partition, the requested offset and the
    available ones. A new topic with more records than the old one had is noticed, too.
    """
    name, _ = checkpoint
    lose(queries, name)
    said = refused(queries, queries.stream(name))
    assert "DataLossError" in said
    assert f"{name}-0" in said
    assert f"wanted from offset 5, available {available}" in said


@pytest.mark.parametrize(("lose", "offsets"), [(_delete_records, {8, 9}), (_recreate, set(range(6)))])
@pytest.mark.parametrize("aligned", [False, True])
def test_a_query_goes_on_after_lost_records_without_fail_on_data_loss(
    queries: KafkaQueries,
    checkpoint: tuple[str, Output],
    lose: Loss,
    offsets: set[int],
    aligned: bool,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """With failOnDataLoss = false a query goes on with the records that are left, and logs a warning."""
    name, output = checkpoint
    before = output.positions()
    lose(queries, name)
    options = {"failOnDataLoss": "false"} | (queries.aligned() if aligned else {})
    queries.run(queries.stream(name, options))
    assert output.positions() - before == {(name, 0, offset): 1 for offset in offsets}
    shown: list[str] = []  # Spark copies what the planning process writes in a thread

    def is_shown() -> bool:
        shown.append(capfd.readouterr().err)
        return f"Records of {name}-0 may have been lost" in "".join(shown)

    wait_until(is_shown, "the warning of the planning process", TIME_LIMIT_S)


@pytest.mark.parametrize("fail", [True, False])
def test_a_topic_that_is_recreated_under_a_query_fails_it(
    queries: KafkaQueries, checkpoint: tuple[str, Output], fail: bool
) -> None:
    """SK-25: a topic that is deleted and created again under a running query is noticed by its id, whatever its
    length.

    The query fails, or reads the new topic from its beginning.
    """
    name, output = checkpoint
    before = output.positions()
    query = queries.start(queries.stream(name, {"failOnDataLoss": str(fail)}), trigger=CONTINUOUS)
    try:
        queries.broker.write(name, records(0, [T0]))
        wait_until(lambda: output.count() == 6, "the query to run", TIME_LIMIT_S)
        if fail:
            _recreate(queries, name)
            queries.broker.write(name, records(0, [T0]))  # longer than the old one
            with pytest.raises(
                StreamingQueryException, match=f"{name}-0 may .* of a topic that was deleted and"
            ):
                query.awaitTermination(int(TIME_LIMIT_S))
            return
        queries.broker.delete_topic(name)
        queries.broker.create_topic(name)
        wait_until(
            lambda: output.offsets()[-1]["splits"][f"{name}-0"][0] == 0, "it to be found", TIME_LIMIT_S
        )
        queries.broker.write(name, records(0, [T0] * 8))
        wait_until(lambda: output.count() == 14, "its records", TIME_LIMIT_S)
    finally:
        query.stop()
    assert output.positions() - before == Counter({(name, 0, n): 1 + (n == 5) for n in range(8)})


def test_a_file_at_the_path_of_the_table_is_refused(queries: KafkaQueries, topic: MakeTopic) -> None:
    name = topic()
    queries.split_watermarks.write_text("not a table")
    said = refused(queries, queries.stream(name, queries.aligned()))
    assert "AlignmentError" in said
    assert str(queries.split_watermarks) in said


def test_a_table_of_other_columns_is_refused(queries: KafkaQueries, topic: MakeTopic) -> None:
    name = topic()
    write_deltalake(str(queries.split_watermarks), pa.table({"customer": ["a"]}))
    said = refused(queries, queries.stream(name, queries.aligned()))
    assert "AlignmentError" in said
    assert str(queries.split_watermarks) in said
    assert len(output_columns(queries)) == 1


def output_columns(queries: KafkaQueries) -> list[str]:
    columns: list[str] = queries.spark.read.format("delta").load(str(queries.split_watermarks)).columns
    return columns
