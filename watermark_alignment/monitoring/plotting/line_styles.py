"""Lines that can be told apart where they lie on each other."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

# The palette of Okabe and Ito for colour-blind readers.
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_NARROWEST, _STEP = 1.4, 1.1  # points
_PLACE, _BETWEEN = 10.0, 1.6  # points along a line


class LineStyle(NamedTuple):
    """How a line is drawn.

    Attributes:
        color: The colour.
        width: The width (points).
        offset: Where in ``dashes`` the line begins (points).
        dashes: The lengths (points) of dashes and of the gaps after them, in turn; empty for a line without gaps.
        alpha: How opaque it is, up to 1.
    """

    color: str
    width: float
    offset: float = 0.0
    dashes: tuple[float, ...] = ()
    alpha: float = 1.0

    def for_matplotlib(self) -> dict[str, Any]:
        """Returns the properties of a line. Matplotlib takes dashes in widths of the line."""
        dashes = tuple(length / self.width for length in self.dashes)
        linestyle = (self.offset / self.width, dashes) if dashes else "-"
        return {
            "color": self.color, "linewidth": self.width, "linestyle": linestyle, "alpha": self.alpha
        }  # fmt: skip


def line_style(index: int, lines: int) -> LineStyle:
    """Returns the style of a line.

    Seven lines have the seven colours, each narrower than the one below it. Lines of the first seven have no gaps. Of
    the others, each seven has its own places along the line, in which the lines below them are covered: the second
    seven a dash in each of its places, the third two short ones, and so on. There are places in which no seven is.

    Args:
        index: The number of the line. Lines are drawn in this order.
        lines: The number of lines.
    """
    seven, place = divmod(index, len(_COLOURS))
    width = _NARROWEST + _STEP * (min(lines, len(_COLOURS)) - 1 - place)
    if not seven:
        return LineStyle(_COLOURS[place], width)
    sevens = -(-lines // len(_COLOURS))
    dash = (_PLACE - _BETWEEN * (seven - 1)) / seven
    elsewhere = (sevens - 1) * _PLACE
    dashes = (*(dash, _BETWEEN) * (seven - 1), dash, elsewhere)
    return LineStyle(_COLOURS[place], width, (sevens - seven) * _PLACE, dashes)
