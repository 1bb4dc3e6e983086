"""Tests of the Kinesis emulators: npm fetches them, they start and stop, and messages name a missing Node.js."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from flip27_stream.errors import ConnectorError
from flip27_stream.testing import KinesisServer
from flip27_stream.testing.kinesis import node_packages, skip_reason


def test_a_missing_node_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Node.js, fetching prints what is not tested, tests are skipped with one line, and the server's error
    names what is missing.
    """
    monkeypatch.setenv("PATH", str(tmp_path))
    node_packages.main()
    assert "Node.js is not installed" in capsys.readouterr().out
    assert "Node.js is not installed" in (skip_reason() or "")
    with pytest.raises(ConnectorError, match=r"Node\.js is not installed"), KinesisServer():
        pass
    with pytest.raises(ConnectorError, match="npm is not installed"):
        node_packages.fetch(tmp_path / "servers")


def test_missing_packages_are_a_reason_to_skip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Node.js is there, and the emulators are not: tests are skipped with one line, and nothing is downloaded."""
    (tmp_path / "node").write_text("#!/bin/sh\n")
    (tmp_path / "node").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("FLIP27_SERVERS", str(tmp_path / "servers"))
    reason = skip_reason() or ""
    assert "'make servers' fetches them" in reason
    assert "\n" not in reason
    assert not (tmp_path / "servers").exists()


def test_packages_that_cannot_be_fetched_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An error about packages that cannot be fetched has npm's last lines, and no incomplete folder is left."""
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho 'no such package'\nexit 1\n")
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ConnectorError, match="no such package"):
        node_packages.fetch(tmp_path / "servers")
    assert not list((tmp_path / "servers").glob("kinesis*"))


@pytest.mark.skipif(skip_reason() is not None, reason=skip_reason() or "")
def test_a_server_ends_with_the_block() -> None:
    with KinesisServer("kinesalite") as server:
        server.create_stream("one", 2)
        assert [shard for shard, _ in server.put("one", [(0, b"a"), (1, b"b")])] == [
            "shardId-000000000000",
            "shardId-000000000001",
        ]
        pid = server.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ConnectorError, match="enter the context"):
        server.client.list_streams()
