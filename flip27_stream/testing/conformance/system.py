"""What a source's author says about the external system, so that the suite can use it."""

from __future__ import annotations

import unittest
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

from flip27_stream.api import ReadLimits, Source


class NotProvided(unittest.SkipTest):
    """A hook is not there, so what needs it is not checked; pytest and ``unittest`` report the check as skipped."""


class ExternalSystem(ABC):
    """What the source reads from; a new, empty one for each check.

    :attr:`source`, :meth:`write` and :meth:`identify` are enough for most checks. Each of the hooks after them is
    there for one more. Without it that check raises :class:`NotProvided` and says what is not checked.
    """

    @property
    @abstractmethod
    def source(self) -> Source[Any, Any]:
        """Reads all there is in this system from the beginning, and all that comes; finds new splits soon."""

    @abstractmethod
    def write(self, split: int, count: int) -> Sequence[Hashable]:
        """Append records to a split, which is made if need be, also for no records.

        Args:
            split: its number, from 0.
            count: how many records.

        Returns:
            What :meth:`identify` makes of each of their rows, in order; never the same twice.
        """

    def identify(self, row: dict[str, Any]) -> Hashable:
        """What tells a row from all others; by default all its columns."""
        return tuple(row.values())

    def close(self) -> None:  # noqa: B027  most have something to remove, not all
        """Remove the system."""

    def write_at(self, split: int, times: Sequence[int | None]) -> Sequence[Hashable]:
        """As :meth:`write`: a record for each of these event times (ms), without one for ``None``."""
        raise _not_provided(
            self, "write_at", "records without an event time, or with one that is not believed"
        )

    def limited(self, limits: ReadLimits) -> Source[Any, Any] | None:
        """:attr:`source` with just these limits of a micro-batch; ``None`` if it has no such option.

        Args:
            limits: one of rows, of bytes or of files; the others are ``None``.
        """
        raise _not_provided(self, "limited", "the limits of a micro-batch that the source's own options set")

    @property
    def bounded(self) -> Source[Any, Any] | None:
        """A source that reads all there is now and ends; ``None`` if it cannot be bounded."""
        raise _not_provided(self, "bounded", "the source as a bounded stage of a hybrid source")

    def hide(self, split: int) -> str:
        """Make a split vanish, with all that was written to it, until :meth:`restore`.

        Returns:
            A word by which an error can name what vanished, such as an id, a file or a topic.
        """
        raise _not_provided(self, "hide", "splits that vanish and come back")

    def restore(self, split: int) -> None:
        """Bring a hidden split back, with the same records."""
        raise _not_provided(self, "restore", "splits that vanish and come back")

    def fail(self) -> None:
        """From now on the system does not do what it is asked for: it refuses, is silent, or is not there."""
        raise _not_provided(self, "fail", "a system that fails for ever")

    def recover(self) -> None:
        """The system does again what it is asked for, and has all that it had."""
        raise _not_provided(self, "recover", "a system that fails for ever")


def _not_provided(system: ExternalSystem, hook: str, what: str) -> NotProvided:
    return NotProvided(f"Not checked: {what}. {type(system).__name__} does not provide {hook}().")
