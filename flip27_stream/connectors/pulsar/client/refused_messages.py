"""Messages that are refused: encrypted and chunked ones, and those with text that is not UTF-8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
            "is encrypted",
            "Publish it without encryption, or read this topic with another client.",
        )
    for number in [n for n, text in enumerate(serialized) if _FIRST_CHUNK in text]:
        if ids[number].batch_index() < 0 and _has_first_chunk(serialized[number]):
            raise _refused(
                messages[number],
                "is chunked",
                "A range could begin between two of its chunks. Publish smaller messages, without chunking.",
            )
    return serialized


def not_utf8(messages: Sequence[Any]) -> RecordFormatError:
    """Returns the error about the first message whose key or properties are not UTF-8, which pulsar-client refuses.

    Args:
        messages: Messages of pulsar-client, with at least one such message.
    """
    message, what = next(
        (message, what)
        for message in messages
        for what, read in (("a key", message.partition_key), ("properties", message.properties))
        if not _is_utf8(read)
    )
    return _refused(
        message,
        f"has {what} with bytes that are not UTF-8",
        "Correct its producer. To read the messages after it, begin a new query behind it with option "
        "'startingOffsets'.",
    )


def _is_utf8(read: Callable[[], object]) -> bool:
    try:
        read()
    except UnicodeDecodeError:
        return False
    return True


def _refused(message: Any, what: str, remedy: str) -> RecordFormatError:
    where = described(position_of(message.message_id()))
    return RecordFormatError(
        f"The message at {where} of {message.topic_name()} {what}, which flip27_pulsar cannot read. {remedy}"
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
