"""Jars are fetched once and completely, or not at all."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flip27_stream.errors import ConnectorError
from flip27_stream.testing import jars

SET = jars.JarSet("some", ("org.example:some:1.0",))

_FAKE_JAVA = """#!/bin/sh
# Stands in for Ivy: counts its runs, and retrieves one jar to the pattern that is the last argument.
echo run >> {log}
for pattern; do :; done
mkdir -p "$(dirname "$pattern")"
sleep 0.2
touch "$(dirname "$pattern")/some-1.0.jar"
echo "	found org.example#some;1.0 in public"
echo "	[SUCCESSFUL ] org.example#some;1.0!some.jar (1ms)"
exit {code}
"""


def fake_java(monkeypatch: pytest.MonkeyPatch, home: Path, code: int) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    log = home / "runs"
    java.write_text(_FAKE_JAVA.format(log=log, code=code))
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(home))
    return log


def test_a_set_is_resolved_once_even_by_several_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = fake_java(monkeypatch, tmp_path / "java", code=0)
    lines: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: jars.fetch(SET, lines.append, tmp_path / "jars"), range(4)))
    assert [[jar.name for jar in each] for each in found] == [["some-1.0.jar"]] * 4
    assert runs.read_text() == "run\n"
    assert lines == ["  found some 1.0", "  fetched some 1.0"]


def test_a_failed_resolution_leaves_nothing_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(monkeypatch, tmp_path / "java", code=1)
    with pytest.raises(ConnectorError, match=r"org\.example:some:1\.0(.|\n)*found org\.example#some;1\.0"):
        jars.fetch(SET, directory=tmp_path / "jars")
    assert [path.name for path in (tmp_path / "jars").iterdir()] == [".lock"]


def test_a_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConnectorError, match=rf"{tmp_path}/bin/java.*Install a Java"):
        jars.fetch(SET, directory=tmp_path / "jars")


def test_jars_are_kept_in_the_configured_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLIP27_JARS", str(tmp_path))
    assert jars.default_directory() == tmp_path
    monkeypatch.delenv("FLIP27_JARS")
    assert jars.default_directory() == Path(__file__).parents[2] / ".jars"


@pytest.mark.jvm
def test_the_real_sets_are_complete_and_bring_nothing_that_spark_has() -> None:
    names = {jar_set.name: [jar.name for jar in jars.fetch(jar_set)] for jar_set in jars.ALL}
    assert "kafka_2.13-4.1.0.jar" in names["kafka-broker"]
    assert "delta-spark_4.2_2.13-4.4.0.jar" in names["delta"]
    assert "delta-storage-4.4.0.jar" in names["delta"]
    assert "spark-token-provider-kafka-0-10_2.13-4.0.0.jar" in names["kafka-source"]
    beside_spark = names["delta"] + names["kafka-source"]
    assert not [
        name
        for name in beside_spark
        if name.startswith(("hadoop-", "scala-library", "slf4j-", "jackson-core"))
    ]


@pytest.mark.jvm
def test_an_artifact_that_does_not_exist_is_named(tmp_path: Path) -> None:
    missing = jars.JarSet("missing", ("org.apache.kafka:kafka_2.13:0.0.0-none",))
    with pytest.raises(ConnectorError, match=r"kafka_2\.13:0\.0\.0-none(.|\n)*not found"):
        jars.fetch(missing, directory=tmp_path)
    assert os.listdir(tmp_path) == [".lock"]
