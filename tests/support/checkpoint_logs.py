"""The logs in the checkpoint of a query of Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def logged_batches(checkpoint: Path, kind: str) -> list[int]:
    """Returns the batches in the offset log (``offsets``) or the commit log (``commits``)."""
    folder = checkpoint / kind
    return sorted(int(p.name) for p in folder.glob("[0-9]*")) if folder.exists() else []


def logged_offset(checkpoint: Path, batch: int) -> dict[str, Any]:
    """Returns the offset of the only source, or of the first one, in the offset log."""
    lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    document: dict[str, Any] = json.loads(lines[2])
    return document
