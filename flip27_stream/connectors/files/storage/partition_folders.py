"""The values of partition columns in the names of folders, such as ``dt=2026-11-01``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from flip27_stream.connectors.files.layout.file_layout import Partition
from flip27_stream.connectors.files.storage.glob import glob_regex

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The value that Hive and Spark write for null."""

_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class PartitionFolders:
    """Finds the values of partition columns in the path of a file (Spark ``PartitioningUtils.parsePartition``).

    Attributes:
        bases: The folders below which names of folders are examined: option ``basePath``, or the paths that are read.
            Some can be globs.
    """

    bases: tuple[str, ...]

    def __call__(self, path: str) -> Partition:
        """Returns the columns and their values, the outermost folder first; empty if the path has no such folder.

        Only the innermost sequence of folders ``column=value`` without other folders between them counts, as in Spark.
        """
        folder = path[: path.rfind("/") + 1]
        known, columns = self._last[0]
        if folder != known:
            columns = self._of_folder(folder)
            self._last[0] = folder, columns
        return columns

    def _of_folder(self, folder: str) -> Partition:
        found: list[tuple[str, str | None]] = []
        for name in reversed(self._below_base(folder)):
            column, _, value = name.partition("=")
            if column and value:
                found.append((_unescaped(column), None if value == NULL else _unescaped(value)))
            elif found:
                break
        return tuple(reversed(found))

    def _below_base(self, folder: str) -> list[str]:
        """Returns the names of the folders below the nearest base.

        Args:
            folder: The path of the innermost folder, with a slash at its end.
        """
        below = [folder[len(base) :] for base in self._literal if folder.startswith(base)]
        below += [folder[match.end() :] for one in self._globs if (match := one.match(folder)) is not None]
        return min(below, key=len, default="").split("/")[:-1]

    @cached_property
    def _last(self) -> list[tuple[str, Partition]]:
        """The folder of the last call and its columns, as a list of one pair. Most calls are for the same folder."""
        return [("", ())]

    @cached_property
    def _literal(self) -> tuple[str, ...]:
        return tuple(f"{base.rstrip('/')}/" for base in self.bases)

    @cached_property
    def _globs(self) -> tuple[re.Pattern[str], ...]:
        return tuple(filter(None, map(_compiled, self._literal)))


def _compiled(base: str) -> re.Pattern[str] | None:
    """Returns a pattern for the paths that a base matches, or ``None`` if it is not a valid glob."""
    try:
        return re.compile(glob_regex(base))
    except re.error:
        return None


def _unescaped(name: str) -> str:
    """Returns a name as it was before Hive or Spark escaped it (``ExternalCatalogUtils.unescapePathName``)."""
    return _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), name)
