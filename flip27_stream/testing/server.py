"""The base class of the servers of the test kit, and the directory of servers that are fetched."""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from flip27_stream.errors import ConnectorError

if TYPE_CHECKING:
    from typing_extensions import Self


class ServerProcess(Protocol):
    """A process that a server runs in."""

    @property
    def pid(self) -> int: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def kill(self) -> None: ...


P = TypeVar("P", bound=ServerProcess)


class Server(ABC, Generic[P]):
    """Base class of context managers that run a server in one process, with its data in a temporary directory.

    Attributes:
        kind: The kind of server, for messages.
    """

    kind: ClassVar[str]
    _process: P | None = None
    _home: Path | None = None

    @property
    def pid(self) -> int:
        """The process id of the running or paused server. A restart changes it."""
        return self._started().pid

    def pause(self) -> None:
        """Freezes the server (SIGSTOP): connections stay open and it does not answer."""
        self._started().pause()

    def resume(self) -> None:
        """Resumes a paused server (SIGCONT)."""
        self._started().resume()

    def kill(self) -> None:
        """Kills the server without a clean shutdown (SIGKILL), as a power failure does."""
        self._started().kill()

    def __enter__(self) -> Self:
        self._home = Path(tempfile.mkdtemp(prefix=f"flip27-{self.kind.lower().replace(' ', '-')}-"))
        try:
            self._start(self._home)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops the server and removes its data. Does nothing if it was not started or is stopped."""
        self._end()
        self._process = None
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    @abstractmethod
    def _start(self, home: Path) -> None:
        """Starts the process, with its data in ``home``. Returns when it answers."""

    @abstractmethod
    def _end(self) -> None:
        """Ends the process and the clients, if they were started."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _started(self) -> P:
        if self._process is None:
            raise self._not_started()
        return self._process

    def _not_started(self) -> ConnectorError:
        return ConnectorError(f"The {self.kind} was not started, or has been stopped: enter the context.")


def servers_directory() -> Path:
    """Returns the directory in which fetched servers are stored.

    It is ``$FLIP27_SERVERS``, else ``.servers`` of the checkout, else ``~/.cache/flip27-stream/servers``.
    """
    configured = os.environ.get("FLIP27_SERVERS")
    if configured:
        return Path(configured)
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "setup.cfg").is_file():
        return checkout / ".servers"
    return Path.home() / ".cache" / "flip27-stream" / "servers"
