"""A real Kafka broker for tests and demos: one node, its own controller (KRaft), on free loopback ports."""

from __future__ import annotations

import base64
import shutil
import tempfile
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from flip27_stream.errors import ConnectorError
from flip27_stream.testing.child import free_port
from flip27_stream.testing.node import PLAINTEXT, Node, Plain, Through, node_properties
from flip27_stream.testing.secure_listeners import SecureListener, SecureListeners
from flip27_stream.testing.topics import Topics

if TYPE_CHECKING:
    from typing_extensions import Self

_HEAP = "512m"


class KafkaBroker(Topics):
    """A context manager that starts a broker and stops it again, whatever happens inside.

    The broker keeps records of any age, creates no topic by itself and knows transactions. Its data live in
    a temporary directory that is removed at the end; :meth:`kill` and :meth:`restart` keep them, and the
    address. If the process that started it dies, by ``kill -9`` too, the broker goes with it.

    ``properties`` are added to the broker's configuration, or replace what is there. ``listeners`` are opened
    beside the one that asks for nothing, :attr:`bootstrap_servers`; :attr:`secure` says how to get in there.
    ``through`` makes a link to each of them, which has its name ("PLAINTEXT", "SASL_SSL", ...) and whose address the
    broker advertises: :meth:`FaultyNetwork.link <flip27_stream.testing.FaultyNetwork.link>`. The kit itself, and what
    is given :attr:`direct_servers`, does not go through it.

    Raises:
        ConnectorError: it did not start; the message ends with the last lines of its log.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        listeners: Collection[SecureListener] = (),
        through: Through | None = None,
    ) -> None:
        self._extra = dict(properties or {})
        self._listeners = tuple(listeners)
        self._through = through
        self._home: Path | None = None
        self._plain = Plain(0, "127.0.0.1:0", 0)
        self._node: Node | None = None
        self._secure: SecureListeners | None = None

    @property
    def bootstrap_servers(self) -> str:
        """``host:port``, for clients."""
        return self._plain.address

    @property
    def direct_servers(self) -> str:
        return f"127.0.0.1:{self._plain.direct_port}"

    @property
    def secure(self) -> SecureListeners:
        """The listeners asked for, with users, passwords and certificates."""
        if self._secure is None:
            raise ConnectorError("The broker was not started, or has been stopped: enter the context.")
        return self._secure

    @property
    def pid(self) -> int:
        """The process id of the running (or paused) broker; another one after a restart."""
        return self._started().pid

    def __enter__(self) -> Self:
        self._home = Path(tempfile.mkdtemp(prefix="flip27-kafka-"))
        try:
            self._secure = SecureListeners(self._listeners, self._home, self._through)
            self._plain = Plain.open(PLAINTEXT, self._through)
            ports = {**self._plain.ports, **self._secure.ports}
            advertised = {**self._plain.advertised, **self._secure.advertised}
            properties = node_properties(1, {1: free_port()}, ports, advertised)
            properties |= {**self._secure.properties(), **self._extra}
            self._node = Node(self._home, self._plain.direct_port, properties, _HEAP)
            self._node.format(new_cluster_id(), self._secure.scram_users)
            self._node.launch()
            self._node.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the broker and remove its data; does nothing where it was not started or is stopped."""
        if self._node is not None:
            self._node.stop()
            self._node = self._secure = None
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP): connections stay open and nobody answers."""
        self._started().pause()

    def resume(self) -> None:
        """Let a paused broker go on (SIGCONT)."""
        self._started().resume()

    def kill(self) -> None:
        """End the broker without a chance to tidy up (SIGKILL), as a power cut would."""
        self._started().kill()

    def restart(self) -> None:
        """Start again on the same data and address, killed or running; returns when the broker answers."""
        node = self._started()
        node.stop()
        node.launch()
        node.wait_until_ready()

    def _started(self) -> Node:
        if self._node is None:
            raise ConnectorError("The broker was not started, or has been stopped: enter the context.")
        return self._node


def new_cluster_id() -> str:
    """As Kafka writes them: 16 random bytes in base 64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
