"""What the terminal shows of every demo."""

from __future__ import annotations

from rich.console import Console
from rich.live import Live
from rich.text import Text


def screen(console: Console) -> Live:
    """A place on the terminal that is written anew while a query runs."""
    return Live(console=console, refresh_per_second=4, redirect_stdout=False, redirect_stderr=False)


def mark(*, begun: bool, over: bool) -> Text:
    """What stands before the name of something that takes time."""
    return Text("✓", style="green") if over else Text("▸" if begun else " ", style="cyan")


def alarm(count: int) -> Text:
    """A number that should be 0."""
    return Text(f"{count:,}", style="bold red" if count else "bold green")
