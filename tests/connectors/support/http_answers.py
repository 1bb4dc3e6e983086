"""The HTTP servers of the tests: their answers, and how they run."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, bytes] | tuple[int, bytes, Mapping[str, str]]
"""Status and body, and optional headers."""


class AnswerHandler(BaseHTTPRequestHandler):
    """A request handler that sends answers, and writes nothing to stderr."""

    def send_answer(self, answer: Answer) -> None:
        status, body, *more = answer
        self.send_response(status)
        for name, value in (more[0] if more else {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Writes nothing to stderr."""


class QuietServer(ThreadingHTTPServer):
    """A server that does not log clients that close their connection to stderr."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        """Writes nothing to stderr."""


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    """Runs a server in a thread until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
