"""A file as a listing shows it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final, NamedTuple


class FoundFile(NamedTuple):
    """A file as a listing shows it.

    Attributes:
        path: as the file system knows it.
        modified: modification time (ms).
        size: in bytes.
    """

    path: str
    modified: int
    size: int


BEING_COPIED: Final = "._COPYING_"
"""The end of the name that Hadoop gives to a file while it copies it."""


def is_hidden_name(name: str) -> bool:
    """Whether a file or folder of that name is passed over, as in Spark.

    Its name begins with a dot or an underscore (``_column=value`` is a partition, not hidden), or the file is still
    being copied.
    """
    return (name[0] in "._" and (name[0] == "." or "=" not in name)) or name.endswith(BEING_COPIED)


def time_text(modified: int) -> str:
    """A modification time (ms) for people."""
    return datetime.fromtimestamp(modified / 1000, timezone.utc).isoformat(timespec="milliseconds")
