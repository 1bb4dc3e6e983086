"""A schedule of acts, each with the time at which it is done."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from benchmarks.chaos.disruptions import Done, Undo

if TYPE_CHECKING:
    from typing_extensions import Self

Act = Callable[[], Done | None]


class Schedule:
    """A context manager that does acts at their times. When the block ends, it undoes those that are not undone yet.

    Acts are done one after the other. They are undone by threads, since that may take long.

    Args:
        say: Gets a sentence about each act.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._began = time.monotonic()
        self._acts: list[tuple[float, int, tuple[Act, float]]] = []
        self._undos: list[tuple[float, int, Undo]] = []
        self._order = itertools.count()
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="undo")
        self._undoing: list[Future[None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for left in self._undos:
            self._undoing.append(self._pool.submit(left[2]))
        self._pool.shutdown()
        for future in self._undoing:
            future.result()

    def add(self, at_s: float, act: Act, lasts_s: float) -> None:
        """Adds an act that is done ``at_s`` seconds after the beginning and undone ``lasts_s`` seconds later."""
        heapq.heappush(self._acts, (at_s, next(self._order), (act, lasts_s)))

    def go_on(self) -> None:
        """Does the acts that are due."""
        while self._undos and self._undos[0][0] <= self.passed_s:
            self._undoing.append(self._pool.submit(heapq.heappop(self._undos)[2]))
        if self._acts and self._acts[0][0] <= self.passed_s:
            act, lasts_s = heapq.heappop(self._acts)[2]
            done = act()
            if done is not None:
                self._say(done.what)
                if done.undo is not None:
                    heapq.heappush(self._undos, (self.passed_s + lasts_s, next(self._order), done.undo))

    @property
    def all_done(self) -> bool:
        """Whether :meth:`go_on` has done all acts that were added, or found that they cannot be done now."""
        return not self._acts

    @property
    def passed_s(self) -> float:
        return time.monotonic() - self._began
