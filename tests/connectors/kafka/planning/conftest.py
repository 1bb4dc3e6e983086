"""A clock of the ranges of logs, which a test advances."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flip27_stream.connectors.kafka.planning import log_ranges, recent_ends


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    for module in (log_ranges, recent_ends):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock
