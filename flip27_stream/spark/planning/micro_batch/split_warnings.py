"""Warnings about splits, limited in number: many splits often need the same warning at the same time."""

from __future__ import annotations

import logging
from collections.abc import Collection

log = logging.getLogger("flip27_stream.spark.planning.micro_batch.split_tracker")

_AT_ONCE = 5
_PERIOD_MS = 60_000


class SplitWarnings:
    """Logs each warning once for a split, and at most five warnings a minute; the others wait for the next minute."""

    def __init__(self) -> None:
        self._given: set[tuple[str, str]] = set()
        self._waiting: dict[tuple[str, str], tuple[object, ...]] = {}
        self._period: tuple[int, int] | None = None
        """The start (ms) of the current minute, and the number of warnings logged in it."""

    def add(self, split: str, text: str, *values: object) -> None:
        """Adds the warning ``text`` with ``values``, unless it was logged before for this split."""
        if (split, text) not in self._given:
            self._waiting[split, text] = values

    def log_due(self, now: int) -> None:
        """Logs the warnings that are due at ``now`` (ms)."""
        began, given = self._period or (now, 0)
        if now - began > _PERIOD_MS:
            began, given = now, 0
        now_due = list(self._waiting)[: _AT_ONCE - given]
        for split, text in now_due:
            log.warning(text, split, *self._waiting.pop((split, text)))
        if now_due and self._waiting:
            log.warning("%d more such warnings follow, %d a minute", len(self._waiting), _AT_ONCE)
        self._given.update(now_due)
        self._period = began, given + len(now_due)

    def forget(self, splits: Collection[str]) -> None:
        """Removes the warnings about retired splits."""
        self._given = {key for key in self._given if key[0] not in splits}
        self._waiting = {key: values for key, values in self._waiting.items() if key[0] not in splits}
