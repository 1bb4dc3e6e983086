"""The messages that ``docs/troubleshooting.md`` quotes are those of the code, or of Spark."""

from __future__ import annotations

import ast
import inspect
import json
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

import flip27_stream
from flip27_stream import errors
from flip27_stream.testing import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
VARIABLE = "\0"
OF_PYTHON = (
    "ModuleNotFoundError: No module named 'flip27_stream'",
    "cannot import name 'OffsetCodec' from 'offsets'",
)


def quoted() -> list[str]:
    """Returns the messages that headings and the first cells of message tables quote."""
    headings = re.findall(r"^### `([^`]+)`", PAGE, re.MULTILINE)
    tables = re.findall(r"^\| message \|.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [*headings, *re.findall(r"^\| `([^`]+)`", "".join(tables), re.MULTILINE)]


MESSAGES = [text for text in quoted() if text not in OF_PYTHON]


def template(node: ast.expr) -> str:
    """Returns the text of an expression, with ``VARIABLE`` in place of each part that only a run knows."""
    match node:
        case ast.Constant(value=str(text)):
            return re.sub(r"%[\d.]*[sdgr]", VARIABLE, text)
        case ast.JoinedStr(values=parts):
            return "".join(template(part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return template(left) + template(right)
        case _:
            return VARIABLE


@cache
def ours() -> tuple[str, ...]:
    """Returns every text in the source of the packages."""
    return tuple(
        template(node)
        for package in ("flip27_stream", "offsets", "watermark_alignment")
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)
    )


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


def is_said(message: str, texts: tuple[str, ...]) -> bool:
    """Returns whether one of ``texts`` has the fixed parts of ``message``, in their order."""
    parts = [part for part in re.split("…", message) if part.strip(" .:;'")]
    pattern = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
    return any(pattern.search(text) for text in texts)


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
    assert printed.startswith("MissingTopicError: The Kafka cluster has no such topic")
    assert len(printed.splitlines()) == 1
