"""The results of two calls of the Pulsar client: the last message of a partition, and a page of its messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tip:
    """The end of a partition.

    Attributes:
        message: The last message; ``None`` if the partition has no message, or if the last message is not known.
        is_hidden: Whether no message came in time, though the broker counts one. It does not send the last entry if
            that belongs to a transaction that is open or was aborted, or is the marker of a transaction: brokers before
            Pulsar 3.1 count such entries as messages. pulsar-client leaves out chunks without their message, and
            messages that it cannot decompress. Or the broker is slow.
        goes_on: Whether further messages came while ``message`` was read.
    """

    message: Any | None
    is_hidden: bool = False
    goes_on: bool = False


@dataclass(frozen=True)
class VisibleMessages:
    """Messages of a partition whose last entry is hidden; see :class:`Tip`.

    Attributes:
        messages: The messages, without a gap.
        goes_on: Whether reading ended because of the number or the size of the messages; otherwise no message followed.
        first_ms: The time (ms) after which the first message came; 0 without messages.
    """

    messages: Sequence[Any]
    goes_on: bool
    first_ms: int = 0
