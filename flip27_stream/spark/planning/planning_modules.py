"""Imports the modules of the first plan."""

from __future__ import annotations

import contextlib
import importlib

from flip27_stream.spark.source_spec import SourceSpec

_PLANNING = ("flip27_stream.spark.planning.coordinator",)
_ALIGNED = ("flip27_stream.spark.planning.group.group_planner", "flip27_stream.spark.reporting.recorder")


def import_planning_modules(spec: SourceSpec) -> None:
    """Imports what the first plan needs. If an import fails, the first plan repeats it and raises the error.

    Args:
        spec: The source, and whether it is aligned.
    """
    aligned = _ALIGNED if spec.alignment is not None else ()
    with contextlib.suppress(Exception):
        for module in (*_PLANNING, *spec.source.planning_modules, *aligned):
            importlib.import_module(module)
