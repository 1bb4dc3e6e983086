"""Which errors may end a query, after which faults."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos.program import ENDINGS, Ending
from flip27_stream import errors

_NAMES = [name for name in vars(errors) if name.endswith("Error")]
_NAMED = re.compile(r"\b(" + "|".join(sorted(_NAMES, key=len, reverse=True)) + r")\b")

OUT_OF_REACH = frozenset({"UnreachableError", "ConnectorError", "AlignmentError"})
"""The errors that the documentation names for brokers, files or a store that cannot be reached for too long."""

FILES_AWAY = frozenset({"DataLossError"})
"""The errors that the documentation names for a file that was removed before it was read."""

ANOTHER_TABLE = frozenset({"ForeignCheckpointError", "CheckpointError", "DataLossError", "ConnectorError"})
"""The errors that the documentation names for a Delta table that was deleted and created again."""

_KILLED = re.compile(
    r"exited unexpectedly|crashed|EOFException|Connection reset|Broken pipe|SocketException|Stream closed",
    re.IGNORECASE,
)
_BUSY = re.compile(r"Python worker failed to connect back|Timed out while waiting for the Python")
"""Spark gives a Python process 10 s to start, which is too little on a busy machine."""

_LATE_S = 60.0
_LATE_AFTER_REMAKING_S = 180.0
_ERROR = re.compile(r"[\w.]+(Error|Exception): ")
_SHOWN = 400


@dataclass(frozen=True)
class Circumstances:
    """The recent faults that may have ended a query.

    Attributes:
        anything: Whether a link had a fault, a process was killed or stopped, or files were hidden.
        process_killed: Whether a process of the driver program was killed.
        remade: Whether the query's table was deleted and created again.
        hidden: Whether the query's folder was hidden.
    """

    anything: bool
    process_killed: bool
    remade: bool
    hidden: bool = False


def error_of(ending: Ending) -> str | None:
    """Returns the class of this project's error that a query ended with; ``None`` if it ended with another error."""
    found = [name for cause in ending.causes for name in _NAMED.findall(cause)]
    return found[-1] if found else None


def fault_with(ending: Ending, circumstances: Circumstances) -> str | None:
    """Returns why a query was not allowed to end like this; ``None`` if it was allowed to."""
    error = error_of(ending)
    if error is None:
        if _is_busy(ending):
            return None
        if circumstances.process_killed and any(_KILLED.search(cause) for cause in ending.causes):
            return None
        return "it ended with an error that is none of the project's own"
    if circumstances.remade and error in ANOTHER_TABLE:
        return None
    if circumstances.hidden and error in FILES_AWAY:
        return None
    if error not in OUT_OF_REACH:
        return f"nothing that happened is a reason for {error}"
    return None if circumstances.anything else f"it ended with {error}, but nothing had happened"


def _kind(ending: Ending) -> str:
    busy = "Spark could not start a process in time"
    return error_of(ending) or (busy if _is_busy(ending) else "a process was killed")


def _is_busy(ending: Ending) -> bool:
    return any(_BUSY.search(cause) for cause in ending.causes)


def shown(ending: Ending) -> str:
    """Returns the most informative line of an error."""
    lines = [line for cause in ending.causes for line in cause.splitlines()]
    of_errors = [line for line in lines if _ERROR.match(line)]
    return (of_errors or lines or ["without an error"])[-1][:_SHOWN]


class Endings:
    """Reads the endings of queries that driver programs record.

    It says for each ending whether the faults before it are a reason for it.

    Attributes:
        counts: The number of endings, by query and error.
    """

    def __init__(self, folder: Path) -> None:
        self.counts: Counter[str] = Counter()
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._last: dict[str, float] = {}

    def happened(self, what: str) -> None:
        """Records the time of an act. ``what`` is the sentence that was printed about it."""
        for begin in ("", "kill worker", "kill planner", "kill driver", "remake table", "hide folder"):
            if what.startswith(begin):
                self._last[begin] = time.time()

    def new(self) -> Iterator[tuple[str, str | None]]:
        """Yields a pair for each query that has ended since the last call.

        The pair is a sentence about the ending, and the reason why it is not allowed, or ``None`` if it is allowed.
        """
        for ending in self._unread():
            self.counts[f"{ending.query}: {_kind(ending)}"] += 1
            fault = fault_with(ending, self._circumstances(ending))
            finding = fault and f"{ending.query}: {fault}:\n" + "\n".join(ending.causes)
            yield f"{ending.query} ended: {shown(ending)}", finding

    def _unread(self) -> Iterator[Ending]:
        for path in self._folder.glob(ENDINGS.format("*")):
            text = path.read_text()
            at = self._read.get(path, 0)
            whole = text.rfind("\n") + 1
            self._read[path] = whole
            yield from map(Ending.from_line, text[at:whole].splitlines())

    def _circumstances(self, ending: Ending) -> Circumstances:
        def within(seconds: float, *begins: str) -> bool:
            return any(ending.at_ms / 1000 - self._last.get(begin, 0) < seconds for begin in begins)

        return Circumstances(
            anything=within(_LATE_S, ""),
            process_killed=within(_LATE_S, "kill worker", "kill planner", "kill driver"),
            remade=ending.query == "table" and within(_LATE_AFTER_REMAKING_S, "remake table"),
            hidden=ending.query == "files" and within(_LATE_S, "hide folder"),
        )
