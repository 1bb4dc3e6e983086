"""Waits for conditions that another process or thread fulfils."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], what: str, timeout: float = 60.0) -> None:
    """Returns once ``condition()`` is true. It is checked every 20 ms, at least once.

    Raises:
        TimeoutError: The condition was not true within ``timeout`` seconds. The message has ``what``.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Waited {timeout:g} s for {what}, which did not happen.")
        time.sleep(0.02)
