"""Parses options ``startingOffsets`` and ``startingTime``, the start positions of a new query."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from flip27_stream.connectors.pulsar.options.topic_names import full_name
from flip27_stream.connectors.pulsar.positions import EARLIEST, position_at
from flip27_stream.decoding.protobuf import DamagedMessageError, fields
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import json_object

_ALLOWED = (
    'Allowed: earliest, latest, or JSON such as {"topic-partition-0": "12:5:0"} with ledger:entry:index, the bytes of '
    'a serialized message id such as [8,12,16,5], "earliest" or "latest".'
)
_ALLOWED_TIME = 'Allowed: milliseconds since 1970, or JSON such as {"topic": 1700000000000}.'
_ID = re.compile(r"(\d{1,19}):(\d{1,19})(?::(-?\d{1,9}))?", re.ASCII)
_LEDGER, _ENTRY, _INDEX = 1, 2, 4


class StartKind(Enum):
    """The start positions of a partition that need no message id and no time."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True)
class AtTime:
    """The first message that was published at ``moment`` (ms) or later."""

    moment: int


Begin = StartKind | AtTime | int
"""The place where reading of a partition begins. A number is the position of a message."""


@dataclass(frozen=True)
class StartPosition:
    """The start positions of a new query.

    Attributes:
        otherwise: The start position of a partition that is not in ``by_topic``.
        by_topic: The start positions of partitions, by the full name of the partition or of its topic.
    """

    otherwise: Begin = StartKind.LATEST
    by_topic: Mapping[str, Begin] = field(default_factory=dict)

    def of(self, partition: str) -> Begin:
        """Returns the start position of a partition: the one for the partition, else the one for its topic."""
        topic = re.sub(r"-partition-\d+$", "", partition)
        return self.by_topic.get(partition, self.by_topic.get(topic, self.otherwise))


def parse_starting_offsets(text: str, name: str) -> StartPosition:
    """Returns the start position in the text of option ``startingOffsets``.

    Raises:
        OptionError: The text has no allowed form.
    """
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return StartPosition(StartKind(word))
    given = json_object(text, name, _ALLOWED)
    return StartPosition(
        by_topic={full_name(topic, name): _begin(value, text, name) for topic, value in given.items()}
    )


def parse_starting_time(text: str, name: str) -> StartPosition:
    """Returns the start position in the text of option ``startingTime``.

    Raises:
        OptionError: The text has no allowed form.
    """
    if re.fullmatch(r"\d{1,15}", text.strip(), re.ASCII):
        return StartPosition(AtTime(int(text)))
    given = json_object(text, name, _ALLOWED_TIME)
    if not given or not all(type(moment) is int and moment >= 0 for moment in given.values()):
        raise OptionError.of(name, text, _ALLOWED_TIME)
    return StartPosition(by_topic={full_name(topic, name): AtTime(moment) for topic, moment in given.items()})


def _begin(value: object, text: str, name: str) -> Begin:
    if isinstance(value, str) and value.lower() in ("earliest", "latest"):
        return StartKind(value.lower())
    if isinstance(value, str) and (found := _ID.fullmatch(value)):
        return position_at(int(found[1]), int(found[2]), int(found[3] or 0))
    if isinstance(value, list) and (parts := _parts(value)) is not None:
        return position_at(parts[_LEDGER], parts[_ENTRY], parts.get(_INDEX, 0)) or EARLIEST
    raise OptionError.of(name, text, f"{json.dumps(value)} is not a position. {_ALLOWED}")


def _parts(listed: list[object]) -> dict[int, int] | None:
    """Returns the fields of a serialized message id by number, without negative ones; ``None`` for other bytes."""
    if not all(type(byte) is int and -128 <= byte < 256 for byte in listed):
        return None
    data = bytes(byte % 256 for byte in listed if isinstance(byte, int))
    try:
        found = {
            number: value for number, value in fields(data) if isinstance(value, int) and value < 1 << 63
        }
    except DamagedMessageError:
        return None
    return found if {_LEDGER, _ENTRY} <= found.keys() else None
