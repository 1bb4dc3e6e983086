"""Imports the modules of the first plan, in a thread, while Spark prepares the query."""

from __future__ import annotations

import contextlib
import importlib
import os
import threading

from flip27_stream.errors import ConnectorError
from flip27_stream.spark.source_spec import SourceSpec
from flip27_stream.threads import start

_PLANNING = ("flip27_stream.spark.planning.coordinator",)
_ALIGNED = ("flip27_stream.spark.planning.group.group_planner", "flip27_stream.spark.reporting.recorder")


class EarlyImports:
    """The imports of one planning process. They begin at once.

    Unless ``RUST_LOG`` is set, it is set so that delta-rs logs errors only: its warnings about a store without
    credentials would come before the error with the remedy.

    Two threads that import the same packages can block each other, so the planning thread waits for this one.

    Args:
        spec: The source, and whether it is aligned.
    """

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        os.environ.setdefault("RUST_LOG", "error")
        self._thread = threading.Thread(target=self._run, name="flip27-imports", daemon=True)
        with contextlib.suppress(ConnectorError):  # Without a thread, the first plan imports the modules.
            start(self._thread)

    def wait(self) -> None:
        """Waits until the imports are done."""
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # The first plan imports again, and raises the error.
            aligned = _ALIGNED if self._spec.alignment is not None else ()
            for module in (*_PLANNING, *self._spec.source.planning_modules, *aligned):
                importlib.import_module(module)
