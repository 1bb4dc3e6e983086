"""A server that sends back what it receives, and its client."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from flip27_stream.testing import Link

SOON_S, LONG_S = 0.2, 60.0


class EchoServer:
    """A server that sends back what it receives.

    It records how connections ended: "" for an end of file, otherwise the name of the error.
    """

    def __init__(self, wrapped: Callable[[socket.socket], socket.socket] = lambda plain: plain) -> None:
        self.ends: list[str] = []
        self.got = 0
        self._wrapped = wrapped
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._answer, args=(client,)))
            self._threads[-1].start()

    def _answer(self, plain: socket.socket) -> None:
        try:
            with self._wrapped(plain) as client:
                while data := client.recv(1 << 16):
                    self.got += len(data)
                    client.sendall(data)
            self.ends.append("")
        except OSError as error:
            self.ends.append(type(error).__name__)
        finally:
            plain.close()


class EchoClient:
    def __init__(self, link: Link) -> None:
        self.socket = socket.create_connection((link.host, link.port), LONG_S)

    def ask(self, size: int = 5) -> int:
        """Sends ``size`` bytes and returns how many came back before an end of file."""
        self.socket.sendall(b"x" * size)
        return self.receive(size)

    def receive(self, size: int) -> int:
        found = 0
        while found < size and (data := self.socket.recv(1 << 16)):
            found += len(data)
        return found

    def is_answered(self) -> bool:
        """Returns whether the server answers within ``SOON_S`` seconds."""
        self.socket.settimeout(SOON_S)
        try:
            return self.ask() == 5
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(LONG_S)
