"""The Pulsar server: its jars are fetched by a step of their own, and what is said where they are missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flip27_stream.errors import ConnectorError
from flip27_stream.testing import PulsarServer, jars, pulsar


def test_without_its_jars(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tests are skipped with one line, fetching fails with Ivy's last lines, and nothing half is left behind."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'no such module'\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("FLIP27_SERVERS", str(tmp_path / "servers"))
    assert "make servers fetches them" in (pulsar.skip_reason() or "")
    with pytest.raises(SystemExit, match="no such module"):
        pulsar.main()
    assert "jars of Pulsar 3.0.0" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "servers").iterdir()] == [".lock"]
    with pytest.raises(ConnectorError, match="no such module"), PulsarServer():
        pass


def test_single_jars_keep_their_classifiers() -> None:
    """A set without dependencies names every jar, some of which are for one platform."""
    module = jars._ivy_module(jars.PULSAR_SERVER, Path())
    assert module.count('transitive="false"') == len(jars.PULSAR_SERVER.artifacts) > 100
    assert 'm:classifier="linux-x86_64"' in module


@pytest.mark.jvm
@pytest.mark.skipif(pulsar.skip_reason() is not None, reason=pulsar.skip_reason() or "")
def test_a_server_ends_with_the_block() -> None:
    """Its data outlive a kill."""
    with PulsarServer() as server:
        server.create_topic("one", 1)
        written = server.put("one-partition-0", [b"a", b"b"])
        assert [entry for _, entry, _ in written] == [0, 1]
        pid = server.pid
        server.kill()
        server.restart()
        assert (
            server.admin("GET", "persistent/public/default/one-partition-0/internalStats")["numberOfEntries"]
            == 2
        )
        restarted = server.pid
    for ended in (pid, restarted):
        with pytest.raises(ProcessLookupError):
            os.kill(ended, 0)
    with pytest.raises(ConnectorError, match="enter the context"):
        server.client.shutdown()
