"""The pairs of ``make compat`` are those of ``docs/versions.md`` and of the package's metadata.

No test here starts a JVM.
"""

from __future__ import annotations

import ast
import configparser
from pathlib import Path

import pytest

from flip27_stream.errors import ConnectorError
from flip27_stream.testing import jars, local_session
from tests.compat.__main__ import main
from tests.compat.pairs import HEAD, PAIRS, TESTS, results, table

ROOT = Path(__file__).parents[2]
REPORT = """<testsuites><testsuite>
<testcase classname="tests.spark.session.test_facts_planning" name="test_one"/>
<testcase classname="tests.spark.session.test_facts_reading" name="test_two[a::b]"/>
<testcase classname="tests.spark.session.test_other_sessions" name="test_formats[remote]"><failure/></testcase>
<testcase classname="tests.spark.session.test_other_sessions" name="test_formats[cluster]"/>
<testcase classname="tests.spark.queries.test_any_spark" name="test_files_are_read_once"/>
<testcase classname="tests.spark.queries.test_any_spark" name="test_a_batch_read_of_kafka"><skipped/></testcase>
</testsuite></testsuites>"""


def test_the_tests_of_each_pair_exist() -> None:
    for name in (name for names in TESTS.values() for name in names):
        path, _, function = name.partition("::")
        tree = ast.parse((ROOT / path).read_text())
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not function or function in functions


def test_the_package_allows_the_spark_of_each_pair_and_no_other() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert setup["options.extras_require"]["spark"].split() == ["pyspark>=4.2,<4.4"]
    assert {pair.spark.rpartition(".")[0] for pair in PAIRS} == {"4.2", "4.3"}
    for pair in PAIRS:
        assert f"Programming Language :: Python :: {pair.python}\n" in setup["metadata"]["classifiers"] + "\n"


def test_the_page_has_a_table_of_the_pairs() -> None:
    page = (ROOT / "docs" / "versions.md").read_text()
    begin, end = table([])
    rows = page.split(f"{begin}\n{end}\n")[1].split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [(row[0], row[1]) for row in cells if row[2] == "17"] == [
        (pair.spark, pair.python) for pair in PAIRS
    ]


def test_a_report_becomes_a_row() -> None:
    cells = results(REPORT)

    assert cells["facts"] == "2 passed"
    assert cells["Connect"] == "1 of 2 failed"
    assert cells["files"] == "1 passed"
    assert cells["Kafka"] == "not run"
    assert cells["alignment"] == "not run"
    row = dict.fromkeys(HEAD, "x") | cells
    assert table([row])[-1].count("|") == len(HEAD) + 1


def test_an_unknown_pair_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["4.0.0/3.13"]) == 2
    assert "unknown: 4.0.0/3.13; there are 4.2.0/3.10" in capsys.readouterr().err


def test_delta_is_not_added_to_a_spark_that_it_does_not_belong_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_spark_version", lambda: "4.2.1")
    assert jars.has_delta()
    monkeypatch.setattr(jars, "_spark_version", lambda: "4.3.0")
    assert not jars.has_delta()
    with pytest.raises(
        ConnectorError, match=r"belongs to Spark 4\.2, and this is Spark 4\.3\.0\. Use local_session"
    ):
        local_session("refused", delta=True)
