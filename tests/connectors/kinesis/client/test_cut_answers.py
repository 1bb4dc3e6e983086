"""Answers whose connection was closed too early are asked for again, wherever they were cut."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator

import pytest

from flip27_stream.connectors.kinesis.client.client import KinesisClient
from flip27_stream.connectors.kinesis.client.shard_limits import ShardLimits
from flip27_stream.connectors.kinesis.options.connection_options import KinesisConnectionOptions

BODY = b'{"Shards":[]}'
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.1\r\ncontent-length: 13\r\n\r\n" + BODY


class CuttingServer(socketserver.ThreadingTCPServer):
    """Closes the first connection after ``left`` bytes of an answer, and answers on the next ones."""

    left = 0
    asked = 0
    daemon_threads = True
    allow_reuse_address = True


class Handler(socketserver.StreamRequestHandler):
    server: CuttingServer

    def handle(self) -> None:
        self.server.asked += 1
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        self.rfile.read(length)
        self.wfile.write(ANSWER if self.server.asked > 1 else ANSWER[: self.server.left])


@pytest.fixture
def server() -> Iterator[CuttingServer]:
    with CuttingServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "missing", [1, len(BODY), len(BODY) + 2, len(BODY) + 24, len(ANSWER) - 17, len(ANSWER)]
)
def test_a_truncated_response_is_asked_for_again(server: CuttingServer, missing: int) -> None:
    """The response ends in the body, after the headers, in the headers, after the status line, or before it."""
    server.left = len(ANSWER) - missing
    options = KinesisConnectionOptions(
        region="us-east-1",
        endpoint=f"http://127.0.0.1:{server.server_address[1]}",
        access_key="test",
        secret_key="test",
    )
    assert KinesisClient(options, ShardLimits(0, 1e6)).shards("clicks") == []
    assert server.asked == 2
