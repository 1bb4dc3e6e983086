"""Parses options ``startingOffsets`` and ``startingTime``, the start positions of a new query."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from flip27_stream.connectors.pulsar.options.topic_names import full_name, topic_of
from flip27_stream.connectors.pulsar.positions import position_at
from flip27_stream.decoding.protobuf import DamagedMessageError, fields
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import MOST_INT, MOST_LONG
from flip27_stream.wall_clock import now_ms

_ALLOWED = (
    'Allowed: earliest, latest, or JSON such as {"topic-partition-0": "12:5:0"} with ledger:entry:index, the bytes of '
    'a serialized message id such as [8,12,16,5], "earliest" or "latest".'
)
_ALLOWED_TIME = 'Allowed: milliseconds since 1970, or JSON such as {"topic": 1700000000000}.'
_ID = re.compile(r"(\d{1,19}):(\d{1,19})(?::(-?\d{1,9}))?", re.ASCII)
_LEDGER, _ENTRY, _INDEX = 1, 2, 4
_LATEST_TIME = 10**15 - 1
_CLOCK_DIFFERENCE_MS = 60_000
"""The greatest difference (ms) between the clocks of machines that is not taken for a mistake in an option."""


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
        """Returns the start position of a partition: the one for the partition, else the one for its topic.

        Raises:
            OptionError: The start position is a time in the future. Brokers find messages by their publish times, and
                know no message of such a time yet.
        """
        begin = self.by_topic.get(partition, self.by_topic.get(topic_of(partition), self.otherwise))
        if isinstance(begin, AtTime) and begin.moment > now_ms() + _CLOCK_DIFFERENCE_MS:
            raise OptionError.of(
                "startingTime",
                begin.moment,
                f"It is later than the clock of the driver, which is at {now_ms()}. Give an earlier time in "
                "milliseconds, or start the query at that time.",
            )
        return begin


def parse_starting_offsets(text: str, name: str) -> StartPosition:
    """Returns the start position in the text of option ``startingOffsets``.

    Raises:
        OptionError: The text has no allowed form.
    """
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return StartPosition(StartKind(word))
    given = _by_topic(text, name, _ALLOWED)
    return StartPosition(by_topic={topic: _begin(value, text, name) for topic, value in given.items()})


def parse_starting_time(text: str, name: str) -> StartPosition:
    """Returns the start position in the text of option ``startingTime``.

    Raises:
        OptionError: The text has no allowed form.
    """
    if re.fullmatch(r"\d{1,15}", text.strip(), re.ASCII):
        return StartPosition(AtTime(int(text)))
    given = _by_topic(text, name, _ALLOWED_TIME)
    if not all(type(moment) is int and 0 <= moment <= _LATEST_TIME for moment in given.values()):
        raise OptionError.of(name, text, _ALLOWED_TIME)
    return StartPosition(by_topic={topic: AtTime(moment) for topic, moment in given.items()})


def _by_topic(text: str, name: str, allowed: str) -> dict[str, Any]:
    """Returns the values of a JSON object by the full names of its topics, at least one, each named once."""
    try:
        pairs = json.loads(text, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        pairs = None
    if not isinstance(pairs, tuple) or not pairs:
        raise OptionError.of(name, text, allowed)
    found: dict[str, Any] = {}
    for topic, value in pairs:
        full = full_name(topic, name)
        if full in found:
            raise OptionError.of(name, text, f"It names {full} twice. Name it once.")
        found[full] = value
    return found


def _begin(value: object, text: str, name: str) -> Begin:
    if isinstance(value, str) and value.lower() in ("earliest", "latest"):
        return StartKind(value.lower())
    if isinstance(value, str) and (found := _ID.fullmatch(value)):
        parts = {_LEDGER: int(found[1]), _ENTRY: int(found[2]), _INDEX: int(found[3] or 0)}
    else:
        parts = _parts(value) if isinstance(value, list) else {}
    if _fits(parts):
        return position_at(parts[_LEDGER], parts[_ENTRY], parts.get(_INDEX, 0))
    raise OptionError.of(name, text, f"{json.dumps(value)} is not a position. {_ALLOWED}")


def _fits(parts: Mapping[int, int]) -> bool:
    """Returns whether parts of a message id, by the numbers of their fields, are complete and in their bounds."""
    return (
        {_LEDGER, _ENTRY} <= parts.keys()
        and max(parts[_LEDGER], parts[_ENTRY]) <= MOST_LONG
        and parts.get(_INDEX, 0) <= MOST_INT
    )


def _parts(listed: list[object]) -> dict[int, int]:
    """Returns the fields of a serialized message id by number, without negative ones; none for other bytes."""
    if not all(type(byte) is int and -128 <= byte < 256 for byte in listed):
        return {}
    data = bytes(byte % 256 for byte in listed if isinstance(byte, int))
    try:
        return {
            number: value for number, value in fields(data) if isinstance(value, int) and value <= MOST_LONG
        }
    except DamagedMessageError:
        return {}
