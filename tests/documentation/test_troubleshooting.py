"""The messages that ``docs/troubleshooting.md`` quotes are those of the code, or of Spark."""

from __future__ import annotations

import ast
import inspect
import json
import re
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

import flip27_stream
from flip27_stream import errors
from flip27_stream.testing import KafkaBroker
from tests.documentation.support.source_texts import (
    PACKAGES,
    ROOT,
    VARIABLE,
    is_said,
    ours,
    template,
    texts_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
CONNECTORS = ROOT / "flip27_stream" / "connectors"
WITHOUT_A_CONDITION = (
    "assertion failed",  # of Spark's MicroBatchExecution
    "Python worker failed to connect back.",  # of Spark's PythonWorkerFactory
    "terminated with exception:  SQLSTATE: XXKST",  # of Spark's StreamExecution; test_any_spark.py checks it
    "Python worker exited unexpectedly (crashed).",  # of Spark's BasePythonRunner
    "java.io.IOException: Stream closed",  # of Java, in Spark's PythonWorkerFactory
    "java.io.OptionalDataException",  # of Java, when Spark reads a task
    'Cannot invoke "String.getBytes(java.nio.charset.Charset)" because "str" is null',  # of Java, in Spark
    "json.decoder.JSONDecodeError",  # of Python, when PySpark reads an offset
    "Incomplete log file",  # of Spark's HDFSMetadataLog
    "batch … doesn't exist",  # of Spark's MicroBatchExecution
    "None.get",  # of Scala, in Spark's OfflineStateRepartitionUtils
    "next on empty iterator",  # of Scala, when Spark reads an offset
    "Can't get attribute '…' on <module 'flip27_stream.…",  # of Python's pickle
    "ModuleNotFoundError: No module named 'flip27_stream'",
    "cannot import name 'OffsetCodec' from 'offsets'",
)


def quoted() -> list[str]:
    """Returns the messages that headings and the first cells of message tables quote."""
    headings = re.findall(r"^### `([^`]+)`", PAGE, re.MULTILINE)
    tables = re.findall(r"^\| message \|.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [*headings, *re.findall(r"^\| `([^`]+)`", "".join(tables), re.MULTILINE)]


MESSAGES = [text for text in quoted() if text not in WITHOUT_A_CONDITION]


@cache
def of_spark() -> tuple[str, ...]:
    """Returns the messages of Spark's error conditions."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as archive:
        conditions = json.loads(archive.read("error/error-conditions.json"))
    return tuple(
        re.sub(r"<\w+>", VARIABLE, f"[{name}] {' '.join(condition['message'])}")
        for name, condition in conditions.items()
    )


@pytest.mark.parametrize("message", MESSAGES)
def test_a_quoted_message_is_one_of_the_code_or_of_spark(message: str) -> None:
    assert is_said(message, of_spark() if message.startswith("[") else ours())


def test_a_quoted_message_that_does_not_exist_is_found() -> None:
    assert not is_said("The broker at … is on holiday", ours())
    assert not is_said("[DATA_SOURCE_LOST] Failed to find the data source: …", of_spark())
    assert len(MESSAGES) > 50


TREE = [name for name, e in inspect.getmembers(errors, inspect.isclass) if issubclass(e, errors.Flip27Error)]


@pytest.mark.parametrize("name", TREE)
def test_every_class_of_error_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("connector", sorted(path.parent.name for path in CONNECTORS.glob("*/__init__.py")))
def test_messages_of_every_connector_are_on_the_page(connector: str) -> None:
    texts = texts_of(f"flip27_stream/connectors/{connector}")
    assert len([message for message in MESSAGES if is_said(message, texts)]) >= 2


@cache
def calls() -> list[ast.Call]:
    """Returns every call in the source of the project's packages."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text()))]
    return [node for node in nodes if isinstance(node, ast.Call)]


def raised(error: str) -> Iterator[str]:
    """Yields the messages with which the source raises an error, or makes a finding of the listener."""
    for call in calls():
        if isinstance(call.func, ast.Name) and call.func.id == error:
            yield from (
                template(a) for a in call.args if isinstance(a, ast.Constant | ast.JoinedStr | ast.BinOp)
            )


@pytest.mark.parametrize(
    "error", ["AlignmentError", "AuthenticationError", "DataLossError", "MissingTopicError", "Finding"]
)
def test_each_message_is_on_the_page(error: str) -> None:
    """A message whose text is all made elsewhere, as ``f"{what}: {why}"``, is left out."""
    texts = [text for text in raised(error) if len(re.findall("[a-z]", text)) > 8]
    assert len(texts) >= 3
    assert [text for text in texts if not any(is_said(message, (text,)) for message in MESSAGES)] == []


def test_warnings_about_event_times_are_on_the_page() -> None:
    source = ast.parse((ROOT / "watermark_alignment" / "event_time_checks.py").read_text())
    public = [node for node in source.body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"]
    warnings = [
        template(node.value)
        for function in public
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and isinstance(node.value, ast.JoinedStr | ast.BinOp)
    ]
    assert len(warnings) >= 5
    assert [text for text in warnings if not any(is_said(message, (text,)) for message in MESSAGES)] == []


def test_forgetting_to_register_comes_first() -> None:
    assert quoted()[0].startswith("[DATA_SOURCE_NOT_FOUND]")


@pytest.mark.jvm
def test_the_message_is_found_in_what_spark_raises(
    broker: KafkaBroker, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    flip27_stream.register(spark)
    rows = (
        spark.readStream.format("flip27_kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", "not-there")
        .load()
    )
    (block, *_) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {"query": rows.writeStream.format("noop").start()}

    exec(compile(block, "troubleshooting.md", "exec"), names)

    printed = capsys.readouterr().out
    assert printed.startswith("MissingTopicError: The Kafka cluster does not have the topics")
    assert len(printed.splitlines()) == 1
