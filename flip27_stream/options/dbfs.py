"""Paths of Databricks, which Spark and Python write differently."""

from __future__ import annotations

import re
from typing import Final

_DBFS: Final = re.compile(r"(?i:dbfs):/+")


def on_driver(location: str) -> str:
    """Returns a location as Python sees it: ``dbfs:/Volumes/...`` and ``dbfs:/...`` become paths on the machine.

    Other locations are unchanged.
    """
    if not _DBFS.match(location):
        return location
    path = _DBFS.sub("/", location)
    return path if path.startswith("/Volumes/") else f"/dbfs{path}"
