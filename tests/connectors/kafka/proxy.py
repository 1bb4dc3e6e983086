"""A TCP proxy between clients and a broker that delays answers, cuts them short or swallows everything."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from flip27_stream.testing.child import free_port

_PIECE = 1 << 16


class Proxy:
    """Passes on what clients and the broker say, until it is told otherwise.

    Attributes:
        target: port of the broker.
        delay_s: waits so long before it passes on a piece of an answer, of ``piece`` bytes at most.
        swallow: takes what comes, and passes nothing on; connections stay open.
        answer_bytes: cuts all connections once it has passed on so many bytes of answers; None for never.
        cuts: how often it did so.
    """

    def __init__(self) -> None:
        self.target = 0
        self.port = free_port()
        self.delay_s = 0.0
        self.piece = _PIECE
        self.swallow = False
        self.answer_bytes: int | None = None
        self.cuts = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", self.port))

    def pass_on(self) -> None:
        """Swallow no more; what was swallowed stays lost, and so do the connections that it was taken from."""
        self.swallow = False

    def cut(self) -> None:
        """End all connections, wherever they are."""
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Listen no more; connections are refused from now on."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def serve(self) -> None:
        self._start(self._accept)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Nobody listens within the block."""
        self.close()
        try:
            yield
        finally:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self.serve()

    def _start(self, run: object, *arguments: object) -> None:
        assert callable(run)
        thread = threading.Thread(target=run, args=arguments, name="proxy", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, broker}
            self._start(self._pump, client, broker, False)
            self._start(self._pump, broker, client, True)

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        """One direction; ends with the connection, whose two sockets are closed by whoever reads from them."""
        with suppress(OSError):
            while piece := source.recv(self.piece if answers else _PIECE):
                if not self.swallow:
                    sink.sendall(self._changed(piece) if answers else piece)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(source)
        source.close()

    def _changed(self, piece: bytes) -> bytes:
        if self.delay_s:
            threading.Event().wait(self.delay_s)
        if self.answer_bytes is None:
            return piece
        self.answer_bytes -= len(piece)
        if self.answer_bytes > 0:
            return piece
        self.answer_bytes = None
        self.cuts += 1
        self.cut()
        return b""


@contextmanager
def proxy() -> Iterator[Proxy]:
    """A proxy that serves until the block ends."""
    running = Proxy()
    running.serve()
    try:
        yield running
    finally:
        running.close()
