"""Styles of lines that remain distinguishable where the lines cover each other."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

# The palette of Okabe and Ito for colour-blind readers.
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_NARROWEST, _STEP, _STEP_DASHED = 1.4, 1.1, 0.7  # points
_SHORTEST_DASH = 6.0  # points
_SMALLEST_DOT, _DOT_STEP, _GREATEST_DOT = 4.0, 3.0, 20.0  # points


class LineStyle(NamedTuple):
    """The style of a line.

    Attributes:
        color: The colour.
        width: The width (points).
        offset: The place in ``dashes`` at which the line begins (points).
        dashes: The lengths (points) of dashes and of the gaps after them, in turn; empty for a line without gaps.
        alpha: The opacity, from 0 to 1.
        dot: The diameter of a dot (points), which stands for a part of the line that is too short to be seen.
    """

    color: str
    width: float
    offset: float = 0.0
    dashes: tuple[float, ...] = ()
    alpha: float = 1.0
    dot: float = _SMALLEST_DOT

    def for_matplotlib(self) -> dict[str, Any]:
        """Returns the properties of a line. Matplotlib takes dashes in widths of the line."""
        dashes = tuple(length / self.width for length in self.dashes)
        linestyle = (self.offset / self.width, dashes) if dashes else "-"
        return {
            "color": self.color, "linewidth": self.width, "linestyle": linestyle, "alpha": self.alpha,
            "markersize": self.dot, "markeredgewidth": 0,
        }  # fmt: skip


def line_style(index: int, lines: int) -> LineStyle:
    """Returns the style of a line.

    Seven lines have seven colours, and each is narrower than the line below it. The first seven lines have no gaps.
    Each further seven lines have shorter dashes than the seven before, so that all lines are visible where they have
    the same values. For the same reason each dot is smaller than the one below it.

    Args:
        index: The number of the line. Lines are drawn in this order.
        lines: The number of lines.
    """
    seven, place = divmod(index, len(_COLOURS))
    above = min(lines, len(_COLOURS)) - 1 - place
    width = _NARROWEST + above * (_STEP_DASHED if seven else _STEP)
    dot = _SMALLEST_DOT + (lines - 1 - index) * _dot_step(lines)
    if not seven:
        return LineStyle(_COLOURS[place], width, dot=dot)
    sevens = -(-lines // len(_COLOURS))
    dash, gap = (sevens - seven) * _SHORTEST_DASH, seven * _SHORTEST_DASH
    return LineStyle(_COLOURS[place], width, dash, (dash, gap), dot=dot)  # The line begins with the gap.


def _dot_step(lines: int) -> float:
    """Returns by how much each dot is smaller than the one below it (points)."""
    return min(_DOT_STEP, (_GREATEST_DOT - _SMALLEST_DOT) / max(lines - 1, 1))
