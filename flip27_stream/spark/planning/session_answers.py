"""What a planning process learns from the session; see :mod:`flip27_stream.spark.session.session_server`."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from flip27_stream.errors import ConnectorError
from flip27_stream.spark.source_spec import Driver
from flip27_stream.threads import start

log = logging.getLogger(__name__)

_PARALLELISM_S = 2.0
_ASK_AGAIN_S = 10.0


def ask(address: str, time_limit_s: float, **question: Any) -> Any:
    """Returns the answer of the session to a question; ``None`` if the session does not know it.

    Args:
        address: The path of the socket of the session.
        time_limit_s: The time limit (s) of each step of the conversation.
        question: The fields of the question.

    Raises:
        OSError, ValueError: The session cannot be asked.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(time_limit_s)
        connection.connect(address)
        connection.sendall(json.dumps(question).encode())
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            return json.load(answer)


def parallelism_now(driver: Driver) -> int:
    """Returns the number of tasks that can run at the same time now; that of ``driver`` if the session does not say."""
    if not driver.session:
        return driver.parallelism
    try:
        answer = ask(driver.session, _PARALLELISM_S, what="parallelism")
    except (OSError, ValueError) as error:
        log.debug("The session does not say how many tasks can run: %s", error)
        return driver.parallelism
    return answer if type(answer) is int and answer > 0 else driver.parallelism


class Parallelism:
    """The number of tasks that can run at the same time.

    A format may be registered before the executors are there: a standalone cluster gives a session before them. So the
    session is asked again every 10 s in which batches run. It is asked in a thread, because the program of the session
    may be busy, and no batch waits for it.

    Args:
        driver: The number when the format was registered, and the socket of the session.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._newest = driver.parallelism
        self._of_batch = -1, 0
        self._ask_at = 0.0
        self._ask_if_due()

    def of_batch(self, batch: int) -> int:
        """Returns the number for a batch, always the same one; 0 if it is not known.

        Spark asks twice for the tasks of a batch in which a source is united with itself. Both times they must be the
        same tasks, because a task is known by its number, and counts once.
        """
        if batch != self._of_batch[0]:
            self._of_batch = batch, self._newest
            self._ask_if_due()
        return self._of_batch[1]

    def _ask_if_due(self) -> None:
        if self._driver.session and time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + _ASK_AGAIN_S
            with suppress(ConnectorError):  # Without a thread the number stays as it is.
                start(threading.Thread(target=self._ask, name="flip27-parallelism", daemon=True))

    def _ask(self) -> None:
        self._newest = parallelism_now(self._driver)
