"""Ports of servers: two calls do not get the same one, in one process or in two."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from flip27_stream.testing import free_ports
from flip27_stream.testing.free_ports import free_port

_TAKE = "from flip27_stream.testing.free_ports import free_port; print(free_port(), flush=True); input()"


def _draw(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """Lets the following calls try these ports in turn."""
    drawn = iter(ports)
    monkeypatch.setattr(free_ports, "random", SimpleNamespace(randint=lambda *_: next(drawn)))


def test_a_port_is_given_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = free_port(), free_port()
    monkeypatch.setattr(free_ports, "_taken", {first})
    _draw(monkeypatch, first, other)
    assert free_port() == other


def test_a_port_of_another_process_is_given_when_that_process_was_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The port counts as taken although no server listens on it, as after a server was killed."""
    other = free_port()
    with subprocess.Popen(
        [sys.executable, "-c", _TAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        monkeypatch.setattr(free_ports, "_taken", set())
        _draw(monkeypatch, port, other)
        assert free_port() == other
        process.kill()
    monkeypatch.setattr(free_ports, "_taken", set())
    _draw(monkeypatch, port)
    assert free_port() == port


def test_a_file_that_cannot_be_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call fails, and does not try one port after another."""
    with Path(os.devnull).open("rb") as unwritable:
        monkeypatch.setattr(free_ports, "_lock_file", lambda: unwritable)
        with pytest.raises(OSError, match="Bad file descriptor"):
            free_port()
