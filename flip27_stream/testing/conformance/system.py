"""The external system of a source, as its author describes it to the conformance suite."""

from __future__ import annotations

import unittest
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

from flip27_stream.api import ReadLimits, Source


class NotProvided(unittest.SkipTest):
    """Raised by a check that needs a hook that the system lacks. pytest and ``unittest`` report it as skipped."""


class ExternalSystem(ABC):
    """The system that the source reads. Each check gets a new, empty one.

    :attr:`source`, :meth:`write` and :meth:`identify` are enough for most checks. Each of the other hooks is needed by
    one more check. Without the hook that check raises :class:`NotProvided` and is reported as skipped.
    """

    @property
    @abstractmethod
    def source(self) -> Source[Any, Any]:
        """A source that reads this system from the beginning, continues with new records, and finds new splits soon."""

    @abstractmethod
    def write(self, split: int, count: int) -> Sequence[Hashable]:
        """Appends records to a split. The split is created if it does not exist, even for no records.

        Args:
            split: The number of the split, from 0.
            count: The number of records.

        Returns:
            The result of :meth:`identify` for each of their rows, in order. All results must differ.
        """

    def identify(self, row: dict[str, Any]) -> Hashable:
        """Returns a value that distinguishes a row from all others; by default all its columns."""
        return tuple(row.values())

    def close(self) -> None:  # noqa: B027  most have something to remove, not all
        """Removes the system."""

    def write_at(self, split: int, times: Sequence[int | None]) -> Sequence[Hashable]:
        """Appends a record for each of these event times (ms).

        For ``None`` it appends a record without an event time; see :meth:`write`.
        """
        raise _not_provided(self, "write_at", "records without an event time, or with one in the far future")

    def limited(self, limits: ReadLimits) -> Source[Any, Any] | None:
        """Returns :attr:`source` with exactly these limits of a micro-batch, or ``None`` if it has no such option.

        Args:
            limits: A limit of rows, of bytes or of files. The other limits are ``None``.
        """
        raise _not_provided(self, "limited", "the limits of a micro-batch that the source's own options set")

    @property
    def bounded(self) -> Source[Any, Any] | None:
        """A source that reads all records that exist now and ends; ``None`` if the source cannot be bounded."""
        raise _not_provided(self, "bounded", "the source as a bounded source of a hybrid source")

    def hide(self, split: int) -> str:
        """Makes a split disappear with all its records, until :meth:`restore`.

        Returns:
            The name that errors must contain for the split, such as an id, a file or a topic.
        """
        raise _not_provided(self, "hide", "splits that vanish and come back")

    def restore(self, split: int) -> None:
        """Makes a hidden split appear again, with the same records."""
        raise _not_provided(self, "restore", "splits that vanish and come back")

    def fail(self) -> None:
        """Makes the system fail from now on: it refuses requests, does not answer, or does not exist."""
        raise _not_provided(self, "fail", "a system that fails for ever")

    def recover(self) -> None:
        """Makes the system work again, with all its records."""
        raise _not_provided(self, "recover", "a system that fails for ever")


def _not_provided(system: ExternalSystem, hook: str, what: str) -> NotProvided:
    return NotProvided(f"Not checked: {what}. {type(system).__name__} does not provide {hook}().")
