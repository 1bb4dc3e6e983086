"""Runs calls that can fail, or never return."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable

_FRAMES = 3


def attempt(call: Callable[[], object], seconds: float) -> Exception | None:
    """Runs ``call`` in a thread, and returns the exception that it raises, or ``None``.

    Raises:
        AssertionError: The call raised an AssertionError, or has not returned within ``seconds``.
    """
    outcome: list[Exception | None] = []

    def run() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - it is the answer
            outcome.append(error)
        else:
            outcome.append(None)

    thread = threading.Thread(target=run, name="conformance-attempt", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise AssertionError(f"the call has not returned for {seconds:g} s, and is here:\n{_place(thread)}")
    if isinstance(outcome[0], AssertionError):
        raise outcome[0]
    return outcome[0]


def _place(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)[-_FRAMES:]) if frame is not None else "it has just ended"
