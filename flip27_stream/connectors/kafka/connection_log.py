"""Why a connection failed: kafka-python says so in its log only, its exceptions are bare time-outs."""

from __future__ import annotations

import logging
from collections import deque

_SYMPTOMS = ("Bootstrap failed", "not ready", "Unable to bootstrap", "No node available", "Metadata refresh")


class ConnectionLog(logging.Handler):
    """Keeps the last warnings and errors of kafka-python.

    While it is attached they do not go to stderr by default; handlers that the application has set up still get them.
    It never lowers the level of a logger: at DEBUG kafka-python logs passwords.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._records: deque[tuple[float, str]] = deque(maxlen=100)

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append((record.created, record.getMessage()))

    def cause_since(self, moment: float) -> str | None:
        """The last thing that went wrong since ``moment`` (seconds since the epoch), in kafka-python's words."""
        for created, message in reversed(self._records):
            if created >= moment and not any(symptom in message for symptom in _SYMPTOMS):
                return message.partition(" (backoff")[0]
        return None


CONNECTION_LOG = ConnectionLog()
logging.getLogger("kafka").addHandler(CONNECTION_LOG)
