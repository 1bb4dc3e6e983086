"""The check for messages that cannot be read exactly: encrypted and chunked messages are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flip27_stream.connectors.pulsar.positions import described, position_of
from flip27_stream.errors import RecordFormatError

_FIRST_CHUNK = b"\x3a"
"""The first byte of a field that only the serialized ids of chunked messages have."""


def check_readable(messages: Sequence[Any], ids: Sequence[Any]) -> list[bytes]:
    """Returns the ids of messages in serialized form, and checks that all messages can be read exactly.

    Args:
        messages: Messages of pulsar-client.
        ids: The ids of these messages.

    Raises:
        RecordFormatError: A message is encrypted or chunked.
    """
    serialized: list[bytes] = [i.serialize() for i in ids]
    if encrypted := [m for m in messages if m.encryption_context() is not None]:
        raise _refused(
            encrypted[0],
            "encrypted",
            "Publish it without encryption, or read this topic with another client.",
        )
    for number in [n for n, text in enumerate(serialized) if _FIRST_CHUNK in text]:
        if ids[number].batch_index() < 0 and _has_first_chunk(serialized[number]):
            raise _refused(
                messages[number],
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
