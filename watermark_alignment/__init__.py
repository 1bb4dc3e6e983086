"""Split-level watermark alignment: the planner, its options, the table of split watermarks, and views of it.

To look at a table: ``python -m watermark_alignment status`` shows it, :func:`plot` draws it, :func:`split_status` makes
a DataFrame of it, :class:`StatusListener` watches it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Both load what they need when they are called.
from watermark_alignment.monitoring.dashboard import split_status
from watermark_alignment.monitoring.plotting.plot import plot

if TYPE_CHECKING:
    from watermark_alignment.monitoring.listener import StatusListener

__all__ = ["StatusListener", "plot", "split_status"]


def __getattr__(name: str) -> Any:
    """The listener is loaded when it is asked for: it needs pyspark."""
    if name != "StatusListener":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from watermark_alignment.monitoring.listener import StatusListener

    return StatusListener
