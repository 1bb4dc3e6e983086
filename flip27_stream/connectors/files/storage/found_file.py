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
"""The suffix of a file that Hadoop is copying."""


def is_hidden_name(name: str) -> bool:
    """Whether files or folders of that name are left out of listings, as in Spark.

    Its name begins with a dot or an underscore (``_column=value`` is a partition, not hidden), or the file is still
    being copied.
    """
    return (name[0] in "._" and (name[0] == "." or "=" not in name)) or name.endswith(BEING_COPIED)


def time_text(modified: int) -> str:
    """A modification time (ms) in ISO 8601's form, for messages."""
    return datetime.fromtimestamp(modified / 1000, timezone.utc).isoformat(timespec="milliseconds")
