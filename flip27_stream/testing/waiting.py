"""Waiting for what another process or thread does."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], what: str, timeout: float = 30.0) -> None:
    """Return once ``condition()`` is true; it is asked every 20 ms, at least once.

    Raises:
        TimeoutError: it was not within ``timeout`` seconds; the message says ``what`` was waited for.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Waited {timeout:g} s in vain for {what}.")
        time.sleep(0.02)
