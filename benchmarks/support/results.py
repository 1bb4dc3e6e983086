"""The results of benchmarks, the targets that they have to reach, and the table of both."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Target:
    """A limit that a figure has to meet: at least, or at most, ``limit``."""

    limit: float
    at_least: bool

    def met_by(self, figure: float) -> bool:
        return figure >= self.limit if self.at_least else figure <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}"


def at_least(limit: float) -> Target:
    return Target(limit, at_least=True)


def at_most(limit: float) -> Target:
    return Target(limit, at_least=False)


@dataclass(frozen=True)
class Result:
    """One line of the table.

    Attributes:
        work: What was measured.
        beside: The result of the yardstick, mostly Spark's built-in source, as text.
        ours: The result of this project's source, as text.
        figures: One figure for each pair (or plan, or process), of which the median counts.
        unit: The unit of the figures.
        target: The limit that the median has to meet; ``None`` for no limit.
    """

    work: str
    beside: str
    ours: str
    figures: Sequence[float]
    unit: str = "x"
    target: Target | None = None

    @property
    def figure(self) -> float:
        return statistics.median(self.figures)

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.target.met_by(self.figure)

    def cells(self) -> list[str]:
        words = {True: "met", False: "NOT MET", None: ""}
        digits = 2 if self.unit == "x" else 0
        low, high = min(self.figures), max(self.figures)
        return [
            self.work,
            self.beside,
            self.ours,
            f"{self.figure:.{digits}f} {self.unit}",
            f"{low:.{digits}f} – {high:.{digits}f}" if len(self.figures) > 1 else "",
            "" if self.target is None else f"{self.target} {self.unit}",
            words[self.met],
        ]


def table(results: Sequence[Result], title: str) -> Table:
    """Returns the table of all results. Lines whose target is missed are highlighted."""
    drawn = Table(title=title, title_justify="left")
    for heading in ("work", "beside", "ours", "median", "range", "target", ""):
        drawn.add_column(heading, justify="left" if heading in ("work", "") else "right")
    for result in results:
        drawn.add_row(*result.cells(), style="bold red" if result.met is False else None)
    return drawn
