"""Tests of the Pulsar server's jars: ``make servers`` fetches them, and messages say so if they are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from flip27_stream.errors import ConnectorError
from flip27_stream.testing import PulsarServer, jars
from flip27_stream.testing.pulsar import server_jars


def test_missing_jars_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the jars, tests are skipped with one line, fetching fails with Ivy's last lines, and no incomplete
    folder is left behind.
    """
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'no such module'\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("FLIP27_SERVERS", str(tmp_path / "servers"))
    assert "'make servers' fetches them" in (server_jars.skip_reason() or "")
    with pytest.raises(SystemExit, match="no such module"):
        server_jars.main()
    assert "jars of Pulsar 3.0.0" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "servers").iterdir()] == [".lock"]
    with pytest.raises(ConnectorError, match="no such module"), PulsarServer():
        pass


def test_single_jars_keep_their_classifiers() -> None:
    """A set that is fetched without dependencies names every jar.

    Some of them are for one platform, by their classifier.
    """
    module = jars._ivy_module(jars.PULSAR_SERVER, Path())
    assert module.count('transitive="false"') == len(jars.PULSAR_SERVER.artifacts) > 100
    assert 'm:classifier="linux-x86_64"' in module
