"""The example of a source whose client waits passes the conformance suite, and retires what is sealed."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from examples.log_server import SCHEMA, LogClient, LogServer, RemoteLog
from flip27_stream.api import WatermarkStrategy
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.reader import SplitsAddition
from flip27_stream.testing import ExternalSystem, SourceConformanceSuite, wait_until
from flip27_stream.testing.source_query import SourceQuery

NOON = 1_700_000_000_000
LINES_AT_ONCE = 1000


class Logs(ExternalSystem):
    """The server: logs in memory, and those that are sealed. While ``is_silent`` it answers no request."""

    def __init__(self) -> None:
        self.logs: dict[str, list[str]] = {}
        self.sealed: set[str] = set()
        self._away: dict[str, list[str]] = {}
        self.fails = False
        self.is_silent = threading.Event()
        self.asked = threading.Event()
        logs = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                logs.asked.set()
                url = urlsplit(self.path)
                while logs.is_silent.is_set() and not logs.closing.wait(0.01):
                    pass
                if logs.fails:
                    self.close_connection = True
                    return
                name = url.path[1:]
                if not name:
                    self._answer(json.dumps({log: len(lines) for log, lines in logs.logs.items()}), None)
                    return
                first = int(parse_qs(url.query)["from"][0])
                if name not in logs.logs:
                    self.send_error(404)
                    return
                lines = logs.logs[name]
                body = "".join(f"{line}\n" for line in lines[first : first + LINES_AT_ONCE])
                self._answer(body, len(lines) if name in logs.sealed else None)

            def _answer(self, body: str, sealed: int | None) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body.encode())))
                if sealed is not None:
                    self.send_header("Sealed", str(sealed))
                self.end_headers()
                with suppress(ConnectionError):  # A client that was woken is gone.
                    self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def source(self) -> LogServer:
        return LogServer(f"127.0.0.1:{self._server.server_port}")

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        first = len(self.logs.get(f"log-{split}", ()))
        return self.write_at(split, [NOON + 1000 * split + 10 * n for n in range(first, first + count)])

    def write_at(self, split: int, times: Sequence[int | None]) -> Sequence[Hashable]:
        """Writes lines that begin with their event times. A negative time stands for ``None``."""
        name = f"log-{split}"
        lines = self.logs.setdefault(name, [])
        first = len(lines)
        lines += [f"{-1 if time is None else time} line {n}" for n, time in enumerate(times, first)]
        return [(name, n, f"line {n}") for n in range(first, len(lines))]

    def hide(self, split: int) -> str:
        name = f"log-{split}"
        self._away[name] = self.logs.pop(name)
        return name

    def restore(self, split: int) -> None:
        self.logs[f"log-{split}"] = self._away.pop(f"log-{split}")

    def fail(self) -> None:
        self.fails = True

    def recover(self) -> None:
        self.fails = False

    def identify(self, row: dict[str, Any]) -> Hashable:
        return row["log"], row["number"], row["text"]

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def served() -> Iterator[Logs]:
    logs = Logs()
    try:
        yield logs
    finally:
        logs.close()


class TestLogServer(SourceConformanceSuite):
    """The checks for the example: SX-01 to SX-08, CO-11, CO-25, and alignment by pausing."""

    strategy = WatermarkStrategy().with_timestamp_assigner(timestamp_assigner("timestamp", SCHEMA))

    def create_system(self) -> ExternalSystem:
        return Logs()


def test_a_sealed_log_that_was_read_is_retired() -> None:
    """A reader tells the enumerator by an event that a log is sealed. Later offsets do not have the log."""
    with served() as logs:
        logs.write(0, 2500)
        logs.write(1, 3)
        logs.sealed.add("log-0")
        with SourceQuery(logs.source) as query:
            for batch in range(3):
                if batch:
                    logs.write(1, 3)
                start, end = query.wait_for_batch()
                assert len(query.read_all(start, end)) == (2503 if batch == 0 else 3)
                query.offset = end
            assert list(end["splits"]) == ["log-1"]
        with SourceQuery(logs.source, end) as again:
            logs.write(1, 2)
            assert {row["log"] for row in again.run(2)} == {"log-1"}


def test_a_client_is_woken_before_it_asks_and_twice() -> None:
    with served() as logs:
        logs.write(0, 1)
        client = LogClient(logs.source.server, {})
        client.handle_splits_changes(SplitsAddition([RemoteLog("log-0", end=1)]))
        for _ in range(2):
            client.wake_up()
            client.wake_up()
            assert not client.fetch()
        assert not logs.asked.is_set()
        assert client.fetch()
        client.close()


def test_an_error_of_the_server_and_odd_line_ends_are_no_lines() -> None:
    with served() as logs:
        logs.logs["log-0"] = [f"{NOON} a\u2028b\x0cc"]
        client = LogClient(logs.source.server, {})
        client.handle_splits_changes(SplitsAddition([RemoteLog("log-0", end=1), RemoteLog("log-1", end=1)]))
        (records,) = client.fetch().records["log-0"]
        assert records.rows == logs.logs["log-0"]
        with pytest.raises(ConnectionError, match="request for log-1 with status 404") as raised:
            client.fetch()
        client.close()
        cycle: list[object] = [raised.value]
        cycle.append(cycle)
        del raised, cycle
        gc.collect()  # Warns of the socket if the error has a response that was left open; a warning is an error here.


def test_a_client_that_waits_for_an_answer_is_woken() -> None:
    with served() as logs:
        logs.write(0, 1)
        logs.is_silent.set()
        client = LogClient(logs.source.server, {})
        client.handle_splits_changes(SplitsAddition([RemoteLog("log-0", end=1)]))
        fetched: list[bool] = []
        waiting = threading.Thread(target=lambda: fetched.append(bool(client.fetch())))
        waiting.start()
        wait_until(logs.asked.is_set, "the request")
        client.wake_up()
        waiting.join(10)
        assert fetched == [False]
        logs.is_silent.clear()
        assert client.fetch()
        client.close()
