"""The time by the machine's clock."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Returns milliseconds since the epoch by the machine's clock, which may be set back or ahead at any time."""
    return time.time_ns() // 1_000_000
