"""Archives of Java's classes (AppCDS, JEP 350), with which a JVM starts in about half of the processor time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


class ClassArchive:
    """A file with the classes that a JVM loaded, for later JVMs with the same class path.

    Java ignores an archive that another Java made, or whose jars have changed.

    Args:
        path: The path of the file, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @staticmethod
    def beside(jars: Sequence[Path]) -> ClassArchive:
        """Returns the archive in the directory of some jars."""
        return ClassArchive(jars[0].parent / "classes.jsa")

    @property
    def options(self) -> list[str]:
        """The options with which a JVM uses the archive; no options while it does not exist."""
        return [f"-XX:SharedArchiveFile={self._path}", *_QUIET] if self._path.exists() else []

    def make(self, run: Callable[[Sequence[str]], object]) -> None:
        """Makes the archive, unless it exists. It appears only when it is complete.

        Args:
            run: Runs a JVM with the given options and ends it with a clean shutdown, in which Java writes the archive.
                The archive is not made if Java cannot write it.
        """
        if self._path.exists():
            return
        with tempfile.TemporaryDirectory(dir=self._path.parent, prefix=".archiving-") as scratch:
            written = Path(scratch, self._path.name)
            run([f"-XX:ArchiveClassesAtExit={written}", *_QUIET])
            if written.exists():
                written.rename(self._path)
