"""Labels of names and of times in pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from watermark_alignment.formatting import name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST_LABEL: Final = 33


def label(given: str) -> str:
    """Returns a short name. Of a long name, such as a path, it keeps the parts that differ from other names."""
    shown = name(given)
    if len(shown) > _LONGEST_LABEL:
        shown = shown.rpartition("/")[2]
    begin, end = 2 * _LONGEST_LABEL // 3, _LONGEST_LABEL // 3
    return shown if len(shown) <= _LONGEST_LABEL else f"{shown[:begin]}…{shown[-end:]}"


def show_times(axes: Axes, which: Literal["x", "y"]) -> None:
    """Puts at least two dates or times on an axis, without the parts that all of them share."""
    from matplotlib.dates import MINUTELY, SECONDLY, AutoDateLocator, ConciseDateFormatter

    axis = axes.yaxis if which == "y" else axes.xaxis
    fewest, most = (5, 11) if which == "y" else (2, 6)
    locator = AutoDateLocator(tz="UTC", minticks=fewest, maxticks=most)  # type: ignore[no-untyped-call]
    for unit in (MINUTELY, SECONDLY):  # Matplotlib goes from 1 to 5, which can leave a single tick
        locator.intervald[unit] = [1, 2, 5, 10, 15, 30]
    axis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator, tz="UTC")  # type: ignore[no-untyped-call]
    formatter.formats = ["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S.%f"]
    formatter.zero_formats = ["", "%Y", "%d %b", "%d %b", "%H:%M", "%H:%M:%S"]
    formatter.offset_formats = ["", "%Y", "%Y", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d"]
    axis.set_major_formatter(formatter)


def hide_times(panel: Axes) -> None:
    """Removes the ticks of an axis without times. Matplotlib would show days of January 1970."""
    from matplotlib.ticker import NullFormatter, NullLocator

    panel.yaxis.set_major_locator(NullLocator())
    panel.yaxis.set_major_formatter(NullFormatter())
