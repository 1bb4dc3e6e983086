"""Imports the modules of the first plan."""

from __future__ import annotations

import contextlib
import importlib
import os

from flip27_stream.spark.source_spec import SourceSpec

_PLANNING = ("flip27_stream.spark.planning.coordinator",)
_ALIGNED = ("flip27_stream.spark.planning.group.group_planner", "flip27_stream.spark.reporting.recorder")


def import_planning_modules(spec: SourceSpec) -> None:
    """Imports what the first plan needs. If an import fails, the first plan repeats it and raises the error.

    Unless ``RUST_LOG`` is set, it is set so that delta-rs logs errors only: its warnings about a store without
    credentials would come before the error with the remedy.

    Args:
        spec: The source, and whether it is aligned.
    """
    os.environ.setdefault("RUST_LOG", "error")
    aligned = _ALIGNED if spec.alignment is not None else ()
    with contextlib.suppress(Exception):
        for module in (*_PLANNING, *spec.source.planning_modules, *aligned):
            importlib.import_module(module)
