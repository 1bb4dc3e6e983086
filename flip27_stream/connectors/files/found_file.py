"""A file as a listing shows it."""

from __future__ import annotations

from typing import NamedTuple


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


def is_hidden_name(name: str) -> bool:
    """Whether it begins with a dot or an underscore; ``_column=value`` is a partition, not hidden."""
    return name[0] in "._" and (name[0] == "." or "=" not in name)
