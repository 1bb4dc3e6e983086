"""Schemas of the user, headers and decoded values, from a real broker into a real Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.functions import col, from_json
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from flip27_stream.connectors.kafka.values.value_json import JsonDecoder
from tests.spark.support.kafka_queries import AVAILABLE_NOW, SECOND, T0, KafkaQueries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def test_a_schema_prunes(queries: KafkaQueries, topic: MakeTopic) -> None:
    """Facts 25 and 26: any case and order, NOT NULL, and no column at all; in a stream, too."""
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
    with pytest.raises(PySparkException, match="offset 1 has nothing for column 'value'"):
        read(queries, name, "value binary NOT NULL", {}).collect()
    with pytest.raises(PySparkException, match="Column 'value' of the schema is string; allowed: binary"):
        read(queries, name, "value string", {}).collect()


def test_headers(queries: KafkaQueries, topic: MakeTopic) -> None:
    """SK-22: the schema is that of the built-in source, and so are the rows."""
    name = topic()
    queries.broker.write(name, [(0, T0, None, b"a"), (0, T0, None, b"b", [("h", b"1"), ("h", b"")])])
    ours, theirs = (
        queries.batch(name, {"includeHeaders": "true"}, source) for source in ("flip27_kafka", "kafka")
    )
    assert ours.schema == theirs.schema
    assert sorted(map(str, ours.collect())) == sorted(map(str, theirs.collect()))


def test_formats_and_modes(queries: KafkaQueries, topic: MakeTopic) -> None:
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


def test_alignment_by_a_decoded_column(queries: KafkaQueries, topic: MakeTopic) -> None:
    """I1, I3: event time is a field of the value; the records' own timestamps say nothing."""
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
        assert running.awaitTermination(60)
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


CASES: Mapping[str, list[str]] = {
    "a int": ["1", "1.0", '"1"', "1e2", "99999999999", "-0", "null", "true", "NaN", "01", "[1]"],
    "a tinyint": ["127", "300"],
    "a string": ['"y"', "5", "true", '{"x": [1, 2.0,"é"]}', '[1, "x"]', '"\\u00e9\\n"', '"\\ud800z"', "null"],
    "a double": ["1", "1.5e3", '"NaN"', '"Infinity"', '"-INF"', "Infinity", "-Infinity", "Inf", '"1.5"', "0.1",
                 '"INF"', '"+INF"', '"+Infinity"', '"inf"', "-0.0", "-NaN", '"1_000"', '" 1"'],
    "a float": ["1.1", "1e300", '"INF"', "7.038531e-26", "1.00000017881393432617187499"],
    "a boolean": ["true", '"true"', "1"],
    "a decimal(6,2)": ["1.5", "1.555", "1.545", "-1.555", '"1.5"', "12345.6", "1e2", '"x"', "7", "9999.999",
                       '" 1.5 "', '"1_000"', '"1,000"', '"1."', '".5"', '"+1e2"', '"NaN"', "1e400"],
    "a decimal(38,10)": ["1e27", "1e28", "1e30", "1e31", "1e38", "12345678901234567890123456789", "0.00000000005"],
    "a date": ['"2020-01-02"', '"2020-1-2"', '"2020"', '"2020-01-02T03:00:00Z"', '"2020-01-02 x"', "5", '""',
               '"02.01.2020"', '"2020-02-30"', '"0001-01-01"', '" 2020-01-02 "', '"\\u00a02020-01-02"', '"2020-01T"',
               '"1_00-01-01"'],
    "a timestamp": [f'"2020-01-02T03:04:05{end}"' for end in ("", "Z", ".123Z", ".123456789Z", "+02:00", "+0200")]
    + ['"2020-01-02 03:04:05"', '"2020-01-02"', '"2020-01"', '"2020-1-2 3:4:5"', '"2020-01-02T03"', "1577934245"]
    + ['"1577934245"', "1.5", '""', '"x"', "-1", '"2020-01-02T24:00:00Z"', '"1969-12-31T23:59:59.5Z"'],
    "a timestamp_ntz": ['"2020-01-02T03:04:05"', '"2020-01-02 03:04:05.123"', '"2020-01-02T03:04:05Z"', "5"],
    "a binary": ['"YWI="', '"!"', "5"],
    "a array<int>": ["[1,null,3]", '[1,"x",3]', "5", "[]", "{}"],
    "a struct<x:int,y:string>": ['{"x":1,"y":"s"}', '{"x":"z","y":"s"}', "{}", "[1]", "null", "5"],
    "a map<string,int>": ['{"x":1,"y":null}', '{"x":"z","y":2}', "{}", "[1]"],
    "a array<struct<d:date,t:timestamp>>": ['[{"d":"2020-01-01","t":5},{"t":"2020-01-01"}]', '[{"d":"x"}]'],
}  # fmt: skip
DOCUMENTS = [
    "",
    "  ",
    "null",
    "[]",
    "5",
    '"x"',
    '{"b":1',
    "{}",
    '{"b":1,}',
    ' {"b":1}\n',
    '{\n"b":1}',
    '{"B":1}',
]
DOCUMENTS += ['{"a":{"b":2},"b":3}', '{"b":1,"b":2}', '{"\\u0062":3}', '{"c":"x\ty","b":1}']


def test_json_is_decoded_as_by_from_json(spark: SparkSession) -> None:
    """Same values, same nulls, and the same rows are bad; the page on columns names the differences."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    schemas = {column: session.createDataFrame([], f"{column}, b int").schema for column in CASES}
    texts = {column: [f'{{"a":{value},"b":1}}' for value in CASES[column]] + DOCUMENTS for column in CASES}
    every = sorted({text for documents in texts.values() for text in documents})
    bad_too = {"columnNameOfCorruptRecord": "bad"}
    parsed = session.createDataFrame([(text,) for text in every], "v string").select(
        "v",
        *(
            from_json(
                col("v"), StructType([*schema.fields, StructField("bad", StringType())]), bad_too
            ).alias(column)
            for column, schema in schemas.items()
        ),
    )
    table = parsed.toArrow()
    places = {text: i for i, text in enumerate(table["v"].to_pylist())}
    differences: list[Any] = []
    for column, schema in schemas.items():
        decoder = JsonDecoder(to_arrow_schema(schema, timezone="UTC"))
        ours = decoder.decode(pa.array([text.encode() for text in texts[column]]))
        bad = ours.bad.to_pylist() if ours.bad is not None else [False] * len(texts[column])
        for i, text in enumerate(texts[column]):
            their = table[column][places[text]]
            expected = [their["a"].as_py(), their["b"].as_py(), their["bad"].as_py() is not None]
            row = [ours.columns[0][i].as_py(), ours.columns[1][i].as_py(), bad[i]]
            if repr(row) != repr(expected):
                differences.append((column, text, row, expected))
    assert differences == []


TIMES = {
    "a date": ["0000-01-01", "0000-02-29", "-0001-01-02", "+12345-01-02", "10000", "5881580-07-11", "5881580-07-12",
               "-5877641-06-23", "-5877641-06-22", "9999999-01-01"],
    "a timestamp": ["0000-01-01T00:00:00Z", "-0001-01-01", "+12345-01-01T00:00:00Z", "294247-01-10T04:00:54.775807Z",
                    "294247-01-10T04:00:54.775808Z", "-290308-12-21T19:59:05.224192Z"],
    "a timestamp_ntz": ["0000-01-01T00:00:00", "+12345-01-01T00:00:00"],
}  # fmt: skip


def test_times_that_python_has_not_are_those_of_from_json(spark: SparkSession) -> None:
    """Years with a sign, before 1 and after 9999, to the ends of what Spark holds."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for column, texts in TIMES.items():
        schema = session.createDataFrame([], column).schema
        values = [json.dumps({"a": text}) for text in texts]
        frame = session.createDataFrame([(value,) for value in values], "v string").coalesce(1)
        their = frame.select(from_json(col("v"), schema).alias("r")).select("r.a").toArrow()["a"]
        ours = JsonDecoder(to_arrow_schema(schema, timezone="UTC")).decode(pa.array(values).cast(pa.binary()))
        assert [cell.value for cell in ours.columns[0]] == [cell.value for cell in their], column


def test_a_view_has_options_and_a_table_has_not(queries: KafkaQueries, topic: MakeTopic) -> None:
    """Spark forgets the options of a table of a Python source; better no such table than one that cannot be read."""
    name = topic()
    written(queries, name, [b"a", b"b"])
    options = ", ".join(f"'{key}' '{value}'" for key, value in queries.kafka(name).items())
    using = f"columns_of_values USING flip27_kafka OPTIONS ({options})"
    with pytest.raises(AnalysisException, match=r"'flip27_kafka' cannot be that of a table.*TEMPORARY VIEW"):
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
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "columns.md").read_text(), re.DOTALL)
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
