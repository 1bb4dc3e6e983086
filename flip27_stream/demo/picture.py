"""The style of the pictures: axes, colours, and the range that is dropped as late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flip27_stream.demo.comparison import NAMES

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

DROPPED = "#B22222"
ARROW = {"arrowstyle": "->", "color": "black"}
DPI = 130


def event_time_axis(panel: Axes, *, show_offset: bool = True) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(tz="UTC", maxticks=11)  # type: ignore[no-untyped-call]
    formatter = ConciseDateFormatter(locator, tz="UTC", show_offset=show_offset)  # type: ignore[no-untyped-call]
    panel.yaxis.set_major_locator(locator)
    panel.yaxis.set_major_formatter(formatter)


def batch_axis(panel: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("batch")


def tidy(panel: Axes) -> None:
    panel.grid(color="#DDDDDD", linewidth=0.7)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def title_with_lost(panel: Axes, source: str, lost: int, of: int, what: str) -> None:
    """Sets a title with the source and the number of rows that it lost, in red if any were lost."""
    text = f"{NAMES[source]}\n{lost:,} of {of:,} {what} lost"
    # The padding leaves room for the words about the allowed drift.
    panel.set_title(text, fontweight="bold", color=DROPPED if lost else "black", pad=18)


def shade_dropped(
    panel: Axes, batches: Sequence[int], watermarks: NDArray[np.datetime64], linestyle: str = "-"
) -> None:
    """Shades the event times below Spark's watermark. The limits of the panel do not change."""
    bottom, top = panel.get_ylim()
    panel.fill_between(
        batches, bottom, watermarks, step="mid", color=DROPPED, alpha=0.12, linewidth=0, zorder=0
    )
    panel.plot(
        batches, watermarks, color=DROPPED, linewidth=1, linestyle=linestyle, drawstyle="steps-mid", zorder=1
    )
    panel.set_ylim(bottom, top)
