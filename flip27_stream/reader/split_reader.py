"""What a connector implements to fetch records: a client of the external system, called in a fetcher's thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from flip27_stream.api.split import SplitT
from flip27_stream.errors import AlignmentError
from flip27_stream.reader.records import RecordsWithSplitIds


@dataclass(frozen=True)
class SplitsChange(Generic[SplitT]):
    """A change of the splits to fetch from."""

    splits: Sequence[SplitT]


@dataclass(frozen=True)
class SplitsAddition(SplitsChange[SplitT]):
    """Further splits to fetch from."""


@dataclass(frozen=True)
class SplitsRemoval(SplitsChange[SplitT]):
    """Splits whose planned range was read; nothing of them may be fetched any more."""


class SplitReader(ABC, Generic[SplitT]):
    """Fetches from one split or several (Flink ``SplitReader``).

    All methods but :meth:`wake_up` are called in one thread, in turn.
    """

    @abstractmethod
    def fetch(self) -> RecordsWithSplitIds:
        """Wait for records and return them, or return without any after :meth:`wake_up`.

        The next call goes on where this one stopped. A split is finished by naming it in the result, once: at the end
        of its range for a bounded split. A call that returns nothing without waiting makes its thread spin.
        """

    @abstractmethod
    def handle_splits_changes(self, change: SplitsChange[SplitT]) -> None:
        """Splits were added or removed. Doesn't wait for anything."""

    @abstractmethod
    def wake_up(self) -> None:
        """Make the running :meth:`fetch` return soon; where none runs, the next one. Called in any thread."""

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> None:
        """Stop fetching from some splits, go on with others (FLIP-217); by split id.

        Only called where a fetcher has splits of both kinds. One whose splits are all paused does not fetch.

        Raises:
            AlignmentError: this reader cannot do so.
        """
        raise AlignmentError(
            f"{type(self).__name__} cannot pause {', '.join(to_pause)} while it reads other splits. Implement "
            "pause_or_resume_splits, or give each split a fetcher of its own."
        )

    def close(self) -> None:
        """Free what the split reader holds. Called in the thread that fetches, once, also after an error."""
