"""Folders of benchmarks: checkpoints, tables and files, which are removed after the measurement."""

from __future__ import annotations

import tempfile


def temporary_folder(prefix: str = "flip27-benchmark-") -> tempfile.TemporaryDirectory[str]:
    """Returns a folder that is removed at the end of its block, as far as it can be.

    Spark ends the planning process of a query after ``awaitTermination`` has returned. Until then the process may write
    to its table, so that the folder cannot be removed. The figures are valid nevertheless.
    """
    return tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
