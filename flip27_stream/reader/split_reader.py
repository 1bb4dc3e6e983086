"""The split reader: a client of the external system that a connector implements and a fetcher calls in its thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from flip27_stream.api.split import SplitT
from flip27_stream.reader.records import RecordsWithSplitIds


@dataclass(frozen=True)
class SplitsChange(Generic[SplitT]):
    """A change of the splits to fetch from.

    Attributes:
        splits: The splits that are added or removed.
    """

    splits: Sequence[SplitT]


@dataclass(frozen=True)
class SplitsAddition(SplitsChange[SplitT]):
    """New splits to fetch from."""


@dataclass(frozen=True)
class SplitsRemoval(SplitsChange[SplitT]):
    """Splits whose planned ranges were read; no more records of them may be fetched."""


class SplitReader(ABC, Generic[SplitT]):
    """Fetches from one split or several (Flink ``SplitReader``).

    All methods are called in one thread, one after the other, except :meth:`wake_up`.
    """

    @abstractmethod
    def fetch(self) -> RecordsWithSplitIds:
        """Waits for records and returns them; returns empty ``RecordsWithSplitIds`` after :meth:`wake_up`.

        The next call goes on where this one stopped. At the end of its range, the result names a split as finished,
        once. A call without records must wait; otherwise the thread calls it in a busy loop.
        """

    @abstractmethod
    def handle_splits_changes(self, change: SplitsChange[SplitT]) -> None:
        """Adds or removes splits. Must not wait for anything."""

    @abstractmethod
    def wake_up(self) -> None:
        """Makes the running :meth:`fetch`, or else the next one, return soon. May be called in any thread."""

    def close(self) -> None:
        """Frees all resources. Called once, in the thread that fetches, also after an error."""
