"""A file of a listing."""

from __future__ import annotations

from typing import Final, NamedTuple


class FoundFile(NamedTuple):
    """A file of a listing.

    Attributes:
        path: The path in the file system.
        modified: The modification time (ms).
        size: The size (bytes).
    """

    path: str
    modified: int
    size: int

    @classmethod
    def of(cls, path: str, modified_ns: int, size: int) -> FoundFile:
        """Returns a file of a listing. A modification time before 1970 is replaced by 1970.

        Args:
            path: The path in the file system.
            modified_ns: The modification time (ns).
            size: The size (bytes).
        """
        return cls(path, max(modified_ns // 1_000_000, 0), size)


BEING_COPIED: Final = "._COPYING_"
"""The suffix of a file while Hadoop copies it."""


LOG_OF_DELTA: Final = "_delta_log"
"""The name of the folder that makes a folder a Delta table."""


def is_hidden_name(name: str) -> bool:
    """Returns whether files or folders of that name are left out of listings, as in Spark.

    The name begins with a dot or an underscore (but ``_column=value`` is a partition), or the file is being copied.
    """
    return (name[0] in "._" and (name[0] == "." or "=" not in name)) or name.endswith(BEING_COPIED)
