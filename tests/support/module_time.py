"""Replaces the functions of ``time`` for one module."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest


def replace_time(monkeypatch: pytest.MonkeyPatch, module: str, **replaced: Callable[..., Any]) -> None:
    """Replaces functions of ``time`` as ``module`` sees them.

    Other threads, such as those of py4j, keep the real ones.
    """
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(**{**vars(time), **replaced}))
