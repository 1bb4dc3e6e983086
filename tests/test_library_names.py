"""The names of Spark, delta-rs, boto3 and pulsar-client that the project uses although they are not documented.

A new version that moves one of them fails here. The names of kafka-python have tests of their own in
``tests/connectors/kafka/kafka_python``.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]

NAMES = {
    ("deltalake.transaction", "RemoveAction"): {"watermark_alignment/table/data_files.py"},
    ("pyspark", "cloudpickle"): {"flip27_stream/spark/data_source.py"},
    ("pyspark.sql.pandas.types", "from_arrow_schema"): {"flip27_stream/spark/data_source.py"},
    ("pyspark.sql.pandas.types", "to_arrow_schema"): {"flip27_stream/spark/session/spark_features.py"},
}
"""The only file that uses each name, by module and name."""

OBJECTS_OF_THE_JVM = {"_jsq", "_jsparkSession", "_jvm"}
"""The attributes by which the session reaches Spark's objects in the JVM. Only :data:`REACHES_THE_JVM` uses them."""

REACHES_THE_JVM = "flip27_stream/spark/session/first_batches.py"

DOCUMENTED = {("deltalake.fs", "DeltaStorageHandler"), ("deltalake.transaction", "AddAction")}
"""Names in the API reference of delta-rs (pages "Storage" and "Transaction"), in modules with other names."""

UNDOCUMENTED = (
    "deltalake.fs",
    "deltalake.transaction",
    "deltalake._",
    "pyspark.sql.pandas",
    "pyspark.cloudpickle",
)


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_an_undocumented_name_exists(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name) or importlib.import_module(f"{module}.{name}")


def test_undocumented_calls_of_delta_rs_have_their_parameters() -> None:
    from deltalake import DeltaTable
    from deltalake.fs import DeltaStorageHandler
    from deltalake.transaction import AddAction, RemoveAction

    fields = list(inspect.signature(AddAction).parameters)
    assert fields == ["path", "size", "partition_values", "modification_time", "data_change", "stats"]
    fields = list(inspect.signature(RemoveAction).parameters)
    assert fields[:5] == ["path", "data_change", "deletion_timestamp", "size", "partition_values"]
    assert list(inspect.signature(DeltaStorageHandler.__init__).parameters)[1:3] == ["table_uri", "options"]
    assert {"actions", "mode", "schema"} <= set(
        inspect.signature(DeltaTable.create_write_transaction).parameters
    )


def test_a_session_of_boto3_takes_credentials_that_renew_themselves() -> None:
    """``flip27_stream/connectors/kinesis/client/session.py`` sets them, as boto3 has no public way."""
    import boto3
    from botocore.credentials import DeferredRefreshableCredentials

    session = boto3.Session(region_name="eu-west-1")
    assert hasattr(session, "_session"), "boto3.Session._session"
    assert hasattr(session._session, "_credentials"), "botocore.session.Session._credentials"
    expiry = "2999-01-01T00:00:00+00:00"
    keys = {"access_key": "AKIA27", "secret_key": "-", "token": "-", "expiry_time": expiry}
    session._session._credentials = DeferredRefreshableCredentials(lambda: keys, "assume-role")

    found = session.get_credentials()
    assert found.get_frozen_credentials().access_key == "AKIA27", "botocore.session.Session._credentials"


def test_a_reader_of_pulsar_is_asked_without_blocking_whether_a_message_is_available() -> None:
    """``flip27_stream/connectors/pulsar/client/client.py`` does so, as the public call can block without end."""
    import _pulsar
    import pulsar

    assert "._reader = " in inspect.getsource(pulsar.Client.create_reader), "pulsar.Reader._reader"
    assert hasattr(_pulsar.Reader, "has_message_available_async"), "_pulsar.Reader"


def test_only_one_file_reaches_into_the_jvm() -> None:
    private = re.compile(r"\._(?:jsq|jsc|jdf|jvm|jsparkSession|jseq|jreader|jwrite|gateway)\b")
    found = {
        str(path.relative_to(ROOT)): set(private.findall(path.read_text()))
        for package in ("flip27_stream", "offsets", "watermark_alignment")
        for path in (ROOT / package).rglob("*.py")
        if private.search(path.read_text())
    }
    assert found == {REACHES_THE_JVM: {f".{name}" for name in OBJECTS_OF_THE_JVM}}


@pytest.mark.jvm
def test_the_objects_of_the_jvm_have_the_methods_that_are_called(spark: SparkSession, tmp_path: Path) -> None:
    """The beginning of a first batch is found with them (``flip27_stream/spark/session/first_batches.py``)."""
    writer = spark.readStream.format("rate").load().writeStream.format("noop")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        running: Any = query._jsq.streamingQuery()
        query.processAllAvailable()
        assert running.resolvedCheckpointRoot().endswith(tmp_path.name)
        assert running.analyzedPlan().collectLeaves().apply(0).isStreaming()
    finally:
        query.stop()
    jvm: Any = spark._jvm
    assert spark._jsparkSession.sessionState().newHadoopConf().get("fs.defaultFS")
    assert jvm.scala.Option.empty().isEmpty()
    of_python = "org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2"
    methods = {method.getName() for method in jvm.java.lang.Class.forName(of_python).getMethods()}
    assert "getOrCreateDataSourceInPython" in methods


def used(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def test_no_other_undocumented_name_is_used() -> None:
    found: dict[tuple[str, str], set[str]] = {}
    for package in ("flip27_stream", "offsets", "watermark_alignment"):
        for path in (ROOT / package).rglob("*.py"):
            for module, name in used(path):
                if f"{module}.{name}".startswith(UNDOCUMENTED) and (module, name) not in DOCUMENTED:
                    found.setdefault((module, name), set()).add(str(path.relative_to(ROOT)))
    assert found == NAMES
