"""Schemas of the user, headers and decoded values, from a real broker into a real Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.types import StructType

from tests.spark.support.kafka_queries import AVAILABLE_NOW, SECOND, T0, KafkaQueries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]
ROOT = Path(__file__).parents[3]


def written(queries: KafkaQueries, topic: str, values: list[bytes | None]) -> None:
    queries.broker.write(topic, [(0, T0 + i * SECOND, b"k", value) for i, value in enumerate(values)])


def read(
    queries: KafkaQueries, topic: str, schema: str | StructType, options: Mapping[str, str]
) -> DataFrame:
    reader = queries.spark.read.format("flip27_kafka").options(**queries.kafka(topic, options))
    return reader.schema(schema).load()


def test_a_schema_selects_columns(queries: KafkaQueries, topic: MakeTopic) -> None:
    """Facts 25 and 26: a schema of the user chooses columns, in a batch read and in a stream. Names may be in any
    case and order, a column may be NOT NULL, and a schema may have no columns.
    """
    name = topic()
    written(queries, name, [b"a", None, b"c"])
    wanted = "Value binary, timestamp timestamp NOT NULL, PARTITION int"
    rows = read(queries, name, wanted, {}).collect()
    assert [(row["Value"], row["timestamp"].timestamp(), row["PARTITION"]) for row in rows] == [
        (value, (T0 + i * SECOND) / 1000, 0) for i, value in enumerate([b"a", None, b"c"])
    ]
    assert read(queries, name, StructType([]), {}).count() == 3
    stream = queries.spark.readStream.format("flip27_kafka").options(**queries.kafka(name))
    output = queries.run(stream.schema("value binary, offset bigint").load())
    assert sorted(output.rows(), key=lambda row: row["offset"]) == [
        {"value": value, "offset": i} for i, value in enumerate([b"a", None, b"c"])
    ]
    with pytest.raises(PySparkException, match="offset 1 has no value for column 'value'"):
        read(queries, name, "value binary NOT NULL", {}).collect()
    with pytest.raises(PySparkException, match="Column 'value' of the schema is string; allowed: binary"):
        read(queries, name, "value string", {}).collect()


def test_values_are_decoded_by_format_and_mode(queries: KafkaQueries, topic: MakeTopic) -> None:
    name = topic()
    avro = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
    record = BytesIO()
    fastavro.schemaless_writer(record, avro, {"id": 21})
    framed = b"\x00\x00\x00\x00\x07" + record.getvalue()
    written(queries, name, [b'{"id": 7, "in": {"x": [1, 2]}}', framed, None])

    wanted = "id bigint, in struct<x:array<int>>, bad binary, offset bigint"
    rows = read(queries, name, wanted, {"value.format": "json", "value.corrupt-column": "bad"}).collect()
    assert [(row["id"], row["bad"]) for row in rows] == [(7, None), (None, framed), (None, None)]
    assert rows[0]["in"].x == [1, 2]

    options = {
        "value.format": "avro",
        "value.avro.schema": json.dumps(avro),
        "value.avro.confluent-framing": "true",
    }
    assert [row["id"] for row in read(queries, name, "id bigint", options).collect()] == [None, 21, None]

    text = queries.batch(name, {"value.format": "string"}).select("value").collect()
    assert text[0][0] == '{"id": 7, "in": {"x": [1, 2]}}'

    options = {"value.format": "json", "value.mode": "failfast"}
    with pytest.raises(PySparkException, match=f"RecordFormatError: The value of {name}-0 at offset 1"):
        read(queries, name, "id bigint", options).collect()
    with pytest.raises(AnalysisException, match=r"'value\.format' json needs a schema"):
        queries.batch(name, {"value.format": "json"})


def test_a_query_is_aligned_by_a_decoded_column(queries: KafkaQueries, topic: MakeTopic) -> None:
    """I1, I3: a query is aligned by a field of the values, while all records have the same timestamp. A schema
    without that field is refused.
    """
    name = topic(partitions=2)
    times = {0: range(0, 600, 2), 1: range(540, 600)}
    queries.broker.write(
        name,
        [(p, T0, None, json.dumps({"at": T0 // 1000 + s, "p": p}).encode()) for p in times for s in times[p]],
    )
    options = queries.kafka(name, queries.aligned("10 s", event_time="at"))
    options |= {"maxOffsetsPerTrigger": "40", "value.format": "json"}
    reader = queries.spark.readStream.format("flip27_kafka").options(**options)
    batches: list[list[tuple[int, int]]] = []

    def keep(frame: DataFrame, batch: int) -> None:
        batches.append([(row.p, int(row.at.timestamp()) - T0 // 1000) for row in frame.collect()])

    stream = reader.schema("at timestamp, p int").load()
    checkpoint = str(queries.output().checkpoint)
    query = stream.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
    running = query.trigger(**AVAILABLE_NOW).start()
    try:
        assert running.awaitTermination(120)
    finally:
        running.stop()
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == sorted((p, s) for p in times for s in times[p])
    seen = {0: -1, 1: -1}
    for batch in batches:
        for p, second in batch:
            seen[p] = max(seen[p], second)
        if seen[0] < 590 and seen[1] >= 0:
            assert seen[1] - seen[0] <= 10 + 2
    assert len(batches) > 5

    elsewhere = reader.schema("p int").load()
    with pytest.raises(PySparkException, match="event-time"):
        queries.run(elsewhere, "other")


def test_a_view_has_options_and_a_table_has_not(queries: KafkaQueries, topic: MakeTopic) -> None:
    """A table of the format is refused when it is created, because Spark forgets the options of a table of a Python
    source. A temporary view keeps its options and can be read.
    """
    name = topic()
    written(queries, name, [b"a", b"b"])
    options = ", ".join(f"'{key}' '{value}'" for key, value in queries.kafka(name).items())
    using = f"columns_of_values USING flip27_kafka OPTIONS ({options})"
    with pytest.raises(AnalysisException, match=r"'flip27_kafka' cannot be used for a table.*TEMPORARY VIEW"):
        queries.spark.sql(f"CREATE TABLE {using}")
    queries.spark.sql(f"CREATE TEMPORARY VIEW {using}")
    try:
        rows = queries.spark.sql("SELECT value FROM columns_of_values ORDER BY offset").collect()
    finally:
        queries.spark.catalog.dropTempView("columns_of_values")
    assert [row["value"] for row in rows] == [b"a", b"b"]


def test_the_example_on_the_page_runs(queries: KafkaQueries, topic: MakeTopic) -> None:
    name = topic()
    written(queries, name, [b'{"id": 1, "amount": 2.5, "ordered": "2026-01-02T03:04:05Z"}', b"{"])
    first, code, _ = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "columns.md").read_text(), re.DOTALL)
    compile(first, "columns.md", "exec")
    for printed, ours in {
        "localhost:9092": queries.broker.bootstrap_servers,
        '"orders")': f'"{name}")',
    }.items():
        assert printed in code
        code = code.replace(printed, ours)
    names: dict[str, Any] = {"spark": queries.spark}
    exec(compile(code, "columns.md", "exec"), names)
    rows = sorted(queries.run(names["orders"]).rows(), key=lambda row: row["offset"])
    assert [(row["id"], str(row["amount"]), row["bad"]) for row in rows] == [
        (1, "2.50", None),
        (None, "None", b"{"),
    ]
