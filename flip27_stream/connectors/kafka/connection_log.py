"""Why a connection failed: kafka-python says so in its log only, its exceptions are bare time-outs."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator

_SYMPTOMS = ("Bootstrap failed", "not ready", "Unable to bootstrap", "No node available", "Metadata refresh")
_NO_FAILURES = ("credentials in the clear", "password in the clear")
_HUNG_UP = ("socket disconnected", "Handshake failed", "SSL", "Sasl")


class ConnectionLog(logging.Handler):
    """Keeps the last warnings and errors of kafka-python.

    While it is attached they do not go to stderr by default; handlers that the application has set up still get them.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._records: deque[tuple[float, str]] = deque(maxlen=100)

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append((record.created, record.getMessage()))

    def cause_since(self, moment: float) -> str | None:
        """The last thing that went wrong since ``moment`` (seconds since the epoch), in kafka-python's words."""
        for message in self._since(moment):
            if not any(symptom in message for symptom in (*_SYMPTOMS, *_NO_FAILURES)):
                return message.partition(" (backoff")[0]
        return None

    def hung_up_since(self, moment: float) -> bool:
        """Whether a broker was there, but did not let somebody in."""
        return any(word in message for message in self._since(moment) for word in _HUNG_UP)

    def _since(self, moment: float) -> Iterator[str]:
        return (message for created, message in reversed(list(self._records)) if created >= moment)


def _shows_no_secret(record: logging.LogRecord) -> bool:
    """At DEBUG kafka-python logs what it sends and receives: passwords and proofs of them, decoded and as bytes."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return not any(
        isinstance(a, (bytes, bytearray)) or type(a).__name__.startswith("Sasl") for a in arguments
    )


CONNECTION_LOG = ConnectionLog()
logging.getLogger("kafka").addHandler(CONNECTION_LOG)
for _talkative in ("kafka.net.connection", "kafka.protocol.parser"):  # a filter holds for its own logger only
    logging.getLogger(_talkative).addFilter(_shows_no_secret)
