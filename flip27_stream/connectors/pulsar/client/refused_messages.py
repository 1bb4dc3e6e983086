"""Messages that cannot be read exactly, and are refused by name."""

from __future__ import annotations

from typing import Any

from flip27_stream.connectors.pulsar.positions import described, position_of
from flip27_stream.errors import RecordFormatError

_FIRST_CHUNK = b"\x3a"
"""How the field of a serialized message id begins that only the id of a chunked message has."""


def check_readable(message: Any, message_id: Any) -> bytes:
    """Returns the serialized id of a message of pulsar-client, which has this id.

    Raises:
        RecordFormatError: It is encrypted or chunked.
    """
    serialized: bytes = message_id.serialize()
    if message.encryption_context() is not None:
        raise _refused(
            message, "encrypted", "Publish it without encryption, or read this topic with another client."
        )
    if _FIRST_CHUNK in serialized and message_id.batch_index() < 0 and _has_first_chunk(serialized):
        raise _refused(
            message,
            "chunked",
            "A range could begin between two of its chunks. Publish smaller messages, without chunking.",
        )
    return serialized


def _refused(message: Any, what: str, remedy: str) -> RecordFormatError:
    where = described(position_of(message.message_id()))
    return RecordFormatError(
        f"The message at {where} of {message.topic_name()} is {what}, which flip27_pulsar cannot read. {remedy}"
    )


def _has_first_chunk(serialized: bytes) -> bool:
    at = 0
    while at < len(serialized):
        if serialized[at : at + 1] == _FIRST_CHUNK:
            return True
        at += 1
        while serialized[at] & 0x80:
            at += 1
        at += 1
    return False
