"""The versioned JSON form of an offset.

A document, as Spark's offset log and ``StreamingQueryProgress`` have it::

    {"batch": 12, "enumerator": [1, ["clicks"]], "flip27": 1, "lineage": "9f86d081",
     "plausible_until": 1700003600000, "source": "Kafka option 'subscribe' (clicks)", "split_version": 1,
     "splits": {"clicks-0": [4711, 1699999999999], "clicks-1": [12, null, 1699999990000]}}

``enumerator`` is the serializer's version and the state. A split is
``[position, read_max, quiet_since, begin, state]``. If the split serializer returns the split's id, ``state`` and any
nulls before it are left out. ``begin`` is the position at which a batch begins to read a new split, or
``[position, batch]`` if an earlier offset introduced the split; documents with such a pair have format version 2, all
others 1.

Spark compares offsets as text, in the insertion order of keys. So :meth:`OffsetCodec.to_json` sorts all keys and
allows no floats: equal offsets have equal text.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from operator import is_
from typing import Any, Final, Generic, TypeVar

from flip27_stream.api.enumerator import CheckpointT
from flip27_stream.api.serializer import JsonValue, SimpleVersionedSerializer
from flip27_stream.api.split import SplitT
from flip27_stream.errors import (
    CheckpointError,
    CorruptCheckpointError,
    ForeignCheckpointError,
    NewerCheckpointError,
)
from flip27_stream.in_order import found_in, values_of
from offsets.offset import Offset, SplitState

T = TypeVar("T")

FORMAT_VERSION: Final = 2
"""The newest format version, and the newest that this release reads."""
MARKER: Final = "flip27"
"""The key by which offsets of this package are recognised; its value is the format version."""

INITIAL: Final[dict[str, JsonValue]] = {MARKER: 1, "offset": "initial"}
"""The constant that ``initialOffset()`` returns.

Spark does not log it, so the offset of batch 0 has the position at which each split begins.
"""

_KEYS: Final = frozenset(
    [MARKER, "batch", "enumerator", "lineage", "plausible_until", "source", "split_version", "splits"]
)
_TIME_LIMIT: Final = 2**63
_FLAT: Final = frozenset([int, str])

_shortened = reprlib.Repr()
_shortened.maxstring = _shortened.maxother = _shortened.maxlong = 80


class OffsetCodec(Generic[SplitT, CheckpointT]):
    """Converts the offsets of one source to JSON documents and back.

    Args:
        fingerprint: The fingerprint of the source.
        split_serializer: The serializer of its splits.
        enumerator_checkpoint_serializer: The serializer of its enumerator's state.
        goes_on_as: Returns the fingerprint with which the source goes on from a checkpoint that a source with another
            fingerprint began, or ``None`` if it cannot go on from it, which is the default. Its arguments are that
            other fingerprint, and whether the offset has event times.
    """

    def __init__(
        self,
        fingerprint: str,
        split_serializer: SimpleVersionedSerializer[SplitT],
        enumerator_checkpoint_serializer: SimpleVersionedSerializer[CheckpointT],
        goes_on_as: Callable[[str, bool], str | None] = lambda _fingerprint, _has_event_times: None,
    ) -> None:
        self._fingerprint = fingerprint
        self._goes_on_as = goes_on_as
        self._splits = split_serializer
        self._enumerator = enumerator_checkpoint_serializer
        self._last: tuple[list[str], list[SplitT], list[JsonValue]] = [], [], []

    def to_json(self, offset: Offset[CheckpointT]) -> dict[str, JsonValue]:
        """Returns the canonical document of ``offset``, with all keys sorted.

        Raises:
            TypeError: A serializer failed, or returned something other than JSON without floats.
            ValueError: ``offset`` has a split under the id of another split, or a negative position.
        """
        begins: dict[str, JsonValue] = dict(offset.begin)
        begins |= {split: [*begin] for split, begin in offset.earlier_begins.items()}
        ids = sorted(offset.splits)
        states = values_of(ids, offset.splits)
        serialized = self._serialized(ids, [state.split for state in states])
        return {
            "batch": offset.batch,
            "enumerator": self.enumerator_to_json(offset.enumerator),
            MARKER: 2 if offset.earlier_begins else 1,
            "lineage": offset.lineage,
            "plausible_until": offset.plausible_until,
            "source": offset.source,
            "split_version": self._splits.version,
            "splits": dict(
                zip(ids, map(_split_to_json, ids, states, found_in(ids, begins), serialized), strict=True)
            ),
        }

    def enumerator_to_json(self, checkpoint: CheckpointT) -> list[JsonValue]:
        """Returns the part of a document that holds the enumerator's state ``checkpoint``.

        Raises:
            TypeError: The serializer failed, or returned something other than JSON without floats.
        """
        return [self._enumerator.version, _serialize(self._enumerator, checkpoint, "enumerator")]

    def from_json(self, document: Mapping[str, Any]) -> Offset[CheckpointT] | None:
        """Returns the offset in ``document``; ``None`` for :data:`INITIAL`. The order of keys does not matter.

        Raises:
            NewerCheckpointError: A newer release wrote the document.
            ForeignCheckpointError: Another source began the checkpoint.
            CorruptCheckpointError: No release writes such a document.
        """
        _check_format(document)
        if document == INITIAL:
            return None
        _check_keys(document)
        source = self._source(document)
        split_version = _natural("split_version", document["split_version"])
        stored = document["splits"]
        if not isinstance(stored, Mapping):
            raise _corrupt("splits", stored, "an object")
        splits: dict[str, SplitState] = {}
        begin: dict[str, int] = {}
        earlier_begins: dict[str, tuple[int, int]] = {}
        for split_id, entry in stored.items():
            splits[split_id], first = self._split_from_json(split_version, split_id, entry)
            if isinstance(first, list):
                earlier_begins[split_id] = _earlier_begin(first, document[MARKER], split_id)
            elif first is not None:
                begin[split_id] = _natural("begin", first, split_id)
        return Offset(
            source=source,
            lineage=_text("lineage", document["lineage"]),
            batch=_natural("batch", document["batch"]),
            enumerator=self._enumerator_from_json(document["enumerator"]),
            splits=splits,
            begin=begin,
            plausible_until=_time("plausible_until", document["plausible_until"]),
            earlier_begins=earlier_begins,
        )

    def _serialized(self, ids: list[str], splits: list[SplitT]) -> list[JsonValue]:
        """Returns the serialized splits. Most offsets have the same splits as the last one, whose data is kept."""
        last_ids, last_splits, data = self._last
        if ids == last_ids and all(map(is_, splits, last_splits)):
            return data
        data = []
        for split_id, split in zip(ids, splits, strict=True):
            if split.split_id != split_id:
                raise ValueError(f"the split that is stored with id {split_id!r} has id {split.split_id!r}")
            data.append(_serialize(self._splits, split, "state", split_id))
        self._last = ids, splits, data
        return data

    def _split_from_json(self, version: int, split_id: Any, entry: Any) -> tuple[SplitState, Any]:
        if not isinstance(split_id, str):
            raise _corrupt("splits", split_id, "a string as the id of a split")
        if not isinstance(entry, list) or not 1 <= len(entry) <= 5:
            raise _corrupt("splits", entry, "an array of 1 to 5 elements", split_id)
        position, read_max, quiet_since, begin = (*entry[:4], None, None, None)[:4]
        data = entry[4] if len(entry) == 5 else split_id
        split = _deserialize(self._splits, version, data, "state", split_id)
        if (found := getattr(split, "split_id", split)) != split_id:
            raise _corrupt("state", data, f"the state of this split, not of {found!r}", split_id)
        state = SplitState(
            split,
            _natural("position", position, split_id),
            _time("read_max", read_max, split_id),
            _time("quiet_since", quiet_since, split_id),
        )
        return state, begin

    def _enumerator_from_json(self, stored: Any) -> CheckpointT:
        if not isinstance(stored, list) or len(stored) != 2:
            raise _corrupt("enumerator", stored, "an array of a version and a state")
        return _deserialize(self._enumerator, _natural("enumerator", stored[0]), stored[1], "enumerator")

    def _source(self, document: Mapping[str, Any]) -> str:
        """Returns the fingerprint for the offset in a document, which another fingerprint may have begun."""
        source = _text("source", document["source"])
        if source == self._fingerprint:
            return source
        goes_on_as = self._goes_on_as(source, _has_event_times(document["splits"]))
        if goes_on_as is None:
            raise ForeignCheckpointError(
                f"The checkpoint was written by another source, {source!r}; this is {self._fingerprint!r}. "
                "Use another checkpointLocation, or the source that wrote it."
            )
        return goes_on_as


def _split_to_json(split_id: str, state: SplitState, begin: JsonValue, data: JsonValue) -> list[JsonValue]:
    _, position, read_max, quiet_since = state
    if position < 0:
        raise ValueError(f"the position of split {split_id!r} must not be negative: {position}")
    if data != split_id:
        return [position, read_max, quiet_since, begin, data]
    if begin is not None:
        return [position, read_max, quiet_since, begin]
    if quiet_since is not None:
        return [position, read_max, quiet_since]
    return [position] if read_max is None else [position, read_max]


def _has_event_times(splits: Any) -> bool:
    """Returns whether a split in the field ``splits`` of a document has an event time, or whether that is unknown."""
    if not isinstance(splits, Mapping):
        return True
    return any(not isinstance(entry, list) or entry[1:2] not in ([], [None]) for entry in splits.values())


def _earlier_begin(stored: list[Any], version: int, split_id: str) -> tuple[int, int]:
    if version < 2 or len(stored) != 2:
        raise _corrupt(
            "begin", stored, "an integer >= 0, or, from format version 2 on, two of them", split_id
        )
    return _natural("begin", stored[0], split_id), _natural("begin", stored[1], split_id)


def _check_format(document: Any) -> None:
    if type(document) is int:  # as Spark's formats rate and socket write it
        raise _foreign(f"is the number {document}")
    if not isinstance(document, Mapping):
        raise _corrupt("offset", document, "a JSON object")
    if document and _KEYS.isdisjoint(document):
        raise _foreign(f"has the fields {_shortened.repr(list(document))}")
    if MARKER not in document:
        raise _corrupt("offset", list(document), f"an object with the key {MARKER!r}")
    version = _natural(MARKER, document[MARKER])
    if version > FORMAT_VERSION:
        raise _newer(f"{MARKER!r} (the format of the offset)", version, FORMAT_VERSION)
    if version < 1:
        raise _corrupt(MARKER, version, "a format version >= 1")


def _foreign(what: str) -> ForeignCheckpointError:
    return ForeignCheckpointError(
        f"The checkpoint was not written by a source of flip27-stream: its offset {what}. Give the query a "
        "checkpointLocation of its own, or start it with the format that wrote this one."
    )


def _check_keys(document: Mapping[str, Any]) -> None:
    if missing := _KEYS - document.keys():
        raise _corrupt("offset", sorted(map(str, document)), f"the missing fields {sorted(missing)}")
    if unknown := document.keys() - _KEYS:
        raise _corrupt("offset", sorted(map(str, unknown)), "no unknown fields")


def _serialize(
    serializer: SimpleVersionedSerializer[T], value: T, field: str, split_id: str | None = None
) -> JsonValue:
    try:
        data = serializer.serialize(value)
    except Exception as error:
        raise TypeError(
            f"{_call(serializer, field, split_id)} failed on {_shortened.repr(value)}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if type(data) is str:
        return data
    try:
        return _canonical(data)
    except TypeError as error:
        raise TypeError(f"{_call(serializer, field, split_id)}: {error}") from error


def _call(serializer: SimpleVersionedSerializer[Any], field: str, split_id: str | None) -> str:
    return f"{type(serializer).__name__}.serialize() of {_place(field, split_id)}"


def _deserialize(
    serializer: SimpleVersionedSerializer[T],
    version: int,
    data: JsonValue,
    field: str,
    split_id: str | None = None,
) -> T:
    if version > serializer.version:
        raise _newer(_place(field, split_id), version, serializer.version)
    try:
        return serializer.deserialize(version, data)
    except NewerCheckpointError:
        raise
    except Exception as error:
        why = str(error) if isinstance(error, CheckpointError) else f"{type(error).__name__}: {error}"
        expected = f"what version {version} writes: {why.rstrip('.')}"
        raise _corrupt(field, data, expected, split_id) from error


# `type(x) is int`, because booleans are instances of int.


def _natural(field: str, value: Any, split_id: str | None = None) -> int:
    if type(value) is not int or value < 0:
        raise _corrupt(field, value, "an integer >= 0", split_id)
    return value


def _time(field: str, value: Any, split_id: str | None = None) -> int | None:
    if value is not None and (type(value) is not int or not -_TIME_LIMIT <= value < _TIME_LIMIT):
        raise _corrupt(field, value, "milliseconds as a 64-bit integer, or null", split_id)
    return value


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _corrupt(field, value, "a non-empty string")
    return value


def _canonical(value: JsonValue) -> JsonValue:
    """Returns ``value`` with the keys of all its objects sorted."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, list):
        is_flat = _FLAT.issuperset(map(type, value))
        return value[:] if is_flat else [_canonical(element) for element in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _canonical(value[key]) for key in sorted(value)}
    raise TypeError(f"an offset holds only JSON without floats, not {_shortened.repr(value)}")


def _newer(place: str, version: int, known: int) -> NewerCheckpointError:
    return NewerCheckpointError(
        f"Checkpoint field {place} has version {version}; this release reads versions up to {known}. "
        "Install the flip27-stream that wrote it, or a newer one, or use another checkpointLocation."
    )


def _corrupt(field: str, value: Any, expected: str, split_id: str | None = None) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"The stored offset is corrupt: checkpoint field {_place(field, split_id)} is "
        f"{_shortened.repr(value)}, expected {expected}. "
        "Restore the checkpoint from a copy, or use another checkpointLocation."
    )


def _place(field: str, split_id: str | None) -> str:
    return f"{field!r}" if split_id is None else f"{field!r} of split {split_id!r}"
