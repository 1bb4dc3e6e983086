"""Filters of kafka-python's log: no line on stderr, no secret in a line."""

from __future__ import annotations

import logging


def _shows_no_secret(record: logging.LogRecord) -> bool:
    """Whether a record has no part of a SASL exchange; at DEBUG kafka-python logs what it sends and receives."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return not any(
        isinstance(a, (bytes, bytearray)) or type(a).__name__.startswith("Sasl") for a in arguments
    )


def quiet_kafka_python() -> None:
    """Keep secrets out of kafka-python's log, and the log off stderr: failures are in our own messages.

    Handlers that the application has set up still get the records.
    """
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    for talkative in (
        "kafka.net.connection",
        "kafka.protocol.parser",
    ):  # a filter holds for its own logger only
        logging.getLogger(talkative).addFilter(_shows_no_secret)
