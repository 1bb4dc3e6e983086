"""Split-level watermark alignment: the planner, its options, the table of split watermarks, and views of it.

``python -m watermark_alignment status`` shows a table, :func:`plot` draws it, :func:`split_status` makes a DataFrame of
it, and :class:`StatusListener` logs warnings about it. :class:`CatalogTableWriter` writes a table of a catalog.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Both functions import their dependencies when they are called.
from watermark_alignment.monitoring.dashboard import split_status
from watermark_alignment.monitoring.plotting.plot import plot

if TYPE_CHECKING:
    from watermark_alignment.catalog_writer import CatalogTableWriter
    from watermark_alignment.monitoring.listener import StatusListener

__all__ = ["CatalogTableWriter", "StatusListener", "plot", "split_status"]

_LISTENERS = {"CatalogTableWriter": "catalog_writer", "StatusListener": "monitoring.listener"}


def __getattr__(name: str) -> Any:
    """Imports a listener when it is first used, because listeners need pyspark."""
    if name not in _LISTENERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"watermark_alignment.{_LISTENERS[name]}"), name)
