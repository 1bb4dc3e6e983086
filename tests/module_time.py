"""The clock and the sleep of one module."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest


def replace_time(monkeypatch: pytest.MonkeyPatch, module: str, **replaced: Callable[..., Any]) -> None:
    """Functions of ``time``, as ``module`` sees them: other threads, say those of py4j, go on with the real ones."""
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(**{**vars(time), **replaced}))
