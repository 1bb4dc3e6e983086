"""The terminal output that all demos share."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

_LINE_EVERY_S = 3.0


class Screen:
    """Shows the progress of a query: on a terminal in place, elsewhere as a line every few seconds.

    Args:
        console: The console.
        clock: Returns monotonic seconds.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._due = 0.0
        self._printed = ""
        self._live = (
            Live(console=console, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False)
            if console.is_terminal
            else None
        )

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, shown: RenderableType, line: str, *, is_last: bool = False) -> None:
        """Shows ``shown`` on a terminal, or prints ``line`` elsewhere.

        At most one line is printed every 3 s, none that is equal to the one before, and always the last one.
        """
        if self._live is not None:
            self._live.update(shown)
        elif is_last or (line != self._printed and self._clock() >= self._due):
            self._console.print(line, markup=False, soft_wrap=True)
            self._printed = line
            self._due = self._clock() + _LINE_EVERY_S


def mark(*, begun: bool, over: bool) -> Text:
    """Returns the mark before the name of a task: waiting, running or done."""
    return Text("✓", style="green") if over else Text("▸" if begun else " ", style="cyan")


def alarm(count: int) -> Text:
    """Returns a number, in red unless it is 0."""
    return Text(f"{count:,}", style="bold red" if count else "bold green")
