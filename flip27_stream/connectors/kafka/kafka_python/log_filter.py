"""Filters the log of kafka-python, so that it has no secrets and writes nothing to stderr."""

from __future__ import annotations

import logging


def _shows_no_secret(record: logging.LogRecord) -> bool:
    """Returns whether a log record has no part of a SASL exchange.

    At DEBUG kafka-python logs the messages that it sends and receives.
    """
    arguments = record.args if isinstance(record.args, tuple) else ()
    return not any(
        isinstance(a, (bytes, bytearray)) or type(a).__name__.startswith("Sasl") for a in arguments
    )


def quiet_kafka_python() -> None:
    """Filters secrets from kafka-python's log, and keeps the log off stderr: this project's messages report failures.

    Handlers that the application has set up still get the records.
    """
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    for logger in (
        "kafka.net.connection",
        "kafka.protocol.parser",
    ):  # A filter only applies to its own logger.
        logging.getLogger(logger).addFilter(_shows_no_secret)
