"""Avro values with ids of a schema registry, from a real broker into a real Spark. A test server stands for the
registry.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from datetime import timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from tests.connectors.kafka.support.registry_server import RegistryServer, framed, registry_server, written
from tests.spark.support.kafka_queries import SECOND, T0, KafkaQueries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.jvm

ROOT = Path(__file__).parents[3]
USER = "value.schema.registry.basic.auth.user.info"
SECRET = "me:hush-hush-8a1f"
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "ordered", "type": MILLIS}],
}
SECOND_VERSION = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "ordered", "type": MILLIS},
        {"name": "id", "type": "long"},
    ],
}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as running:
        yield running


def orders_of_the_page(queries: KafkaQueries, topic: str, registry_url: str) -> DataFrame:
    """Returns the stream of the example in docs/columns.md, with a topic, a registry and alignment."""
    _, _, code = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "columns.md").read_text(), re.DOTALL)
    aligned = queries.aligned("10 s") | {"maxOffsetsPerTrigger": "40", "startingOffsets": "earliest"}
    more = "".join(f".option({key!r}, {value!r})" for key, value in aligned.items())
    for printed, ours in {
        "localhost:9092": queries.broker.bootstrap_servers,
        '"subscribe", "orders"': f'"subscribe", "{topic}"',
        "https://registry.example.com": registry_url,
        "user:password": SECRET,
        ".schema(": f"{more}.schema(",
    }.items():
        assert printed in code
        code = code.replace(printed, ours)
    names: dict[str, Any] = {"spark": queries.spark}
    exec(compile(code, "columns.md", "exec"), names)
    orders: DataFrame = names["orders"]
    return orders


def test_values_of_two_schemas_are_aligned_by_a_field(
    queries: KafkaQueries, topic: Callable[..., str], server: RegistryServer
) -> None:
    """I1, I3: the example of docs/columns.md reads values of two schemas, aligned by one of their fields. The
    registry fails at first. Its secret is in no file of the query.
    """
    name = topic(partitions=2)
    first = server.register("orders-value", FIRST)
    second = server.register("orders-value", SECOND_VERSION)
    records: list[tuple[int, int, bytes | None, bytes]] = []
    for i in range(100):
        old = {"id": i, "ordered": T0 + i * SECOND}
        new = {"id": 2**40 + i, "ordered": T0 + i * SECOND, "note": f"n{i}"}
        records.append((0, T0, None, written(FIRST, old, first)))
        if i >= 75:
            records.append((1, T0, None, written(SECOND_VERSION, new, second)))
    queries.broker.write(name, records)
    basic = "Basic " + base64.b64encode(SECRET.encode()).decode()
    failing = iter([(503, b""), (500, b"")])

    def fault(_: str, sent: Any) -> Any:
        return next(failing, None) if sent.get("authorization") == basic else (401, b"")

    server.fault = fault
    output = queries.run(orders_of_the_page(queries, name, server.url))

    found = sorted((row["id"], row["note"], row["ordered"].astimezone(timezone.utc)) for row in output.rows())
    assert [row[:2] for row in found] == [
        *((i, None) for i in range(100)),
        *((2**40 + i, f"n{i}") for i in range(75, 100)),
    ]
    assert {int(row[2].timestamp() * 1000) for row in found} == {T0 + i * SECOND for i in range(100)}
    assert len(output.logged("commits")) > 3
    assert max(row["drift_ms"] or 0 for row in queries.split_watermark_rows()) <= 10_000
    written_files = [path for path in queries.folder.rglob("*") if path.is_file()]
    assert written_files
    secret = SECRET.encode(), SECRET.partition(":")[2].encode()
    assert [path for path in written_files for text in secret if text in path.read_bytes()] == []


def test_errors_have_their_cause_and_no_secret(
    queries: KafkaQueries, topic: Callable[..., str], server: RegistryServer
) -> None:
    name = topic()
    id_ = server.register("orders-value", FIRST)
    good = written(FIRST, {"id": 1, "ordered": T0}, id_)
    queries.broker.write(name, [(0, T0, None, good), (0, T0, None, framed(77, b"x"))])
    options = queries.kafka(
        name,
        {
            "value.format": "avro",
            "value.mode": "failfast",
            "value.schema.registry.url": server.url,
            "value.schema.registry.subject": "orders-value",
            "value.schema.registry.timeout": "300 ms",
            USER: SECRET,
        },
    )

    def failure(**changed: str) -> str:
        given = options | {key.replace("_", "."): value for key, value in changed.items()}
        reader = queries.spark.read.format("flip27_kafka").options(**given).schema("id bigint")
        with pytest.raises(PySparkException) as error:
            reader.load().collect()
        assert SECRET not in str(error.value)
        return str(error.value)

    unknown = failure()
    assert (
        f"The value of {name}-0 at offset 1 does not decode as avro: with schema 77 of the registry, "
        in unknown
    )
    assert "'no-value'" in failure(value_schema_registry_subject="no-value")
    server.fault = lambda path, _: (503, b"") if path.startswith("/schemas") else None
    assert "The schema registry did not answer within 300 ms" in failure()
    server.fault = lambda *_: (403, b"")
    assert "The schema registry refused" in failure()
