"""Answers that an emulator does not give by itself. They are put in between boto3 and the network."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from botocore.awsrequest import AWSResponse

from flip27_stream.connectors.kinesis.client.session import shared_client
from flip27_stream.connectors.kinesis.options.connection_options import KinesisConnectionOptions

Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any] | bytes] | None]
"""Makes a status and a body of the arguments of a call; ``None`` to let the call through. Bytes are an event stream."""


class _Raw(io.BytesIO):
    def stream(self, amount: int = 0, **_: object) -> Iterator[bytes]:
        yield self.read()


@contextmanager
def answering(connection: KinesisConnectionOptions, operation: str, answer: Answer) -> Iterator[list[str]]:
    """Answers calls of one operation with ``answer``. Yields a list that grows by one for each such answer."""
    clients = shared_client(connection), shared_client(connection, connection.probe_timeout_s)
    given = list[str]()

    def before_send(request: Any, **_: object) -> AWSResponse | None:
        made = answer(json.loads(request.body))
        if made is None:
            return None
        status, body = made
        given.append(operation)
        kind = (
            "application/vnd.amazon.eventstream" if isinstance(body, bytes) else "application/x-amz-json-1.1"
        )
        raw = _Raw(body if isinstance(body, bytes) else json.dumps(body).encode())
        return AWSResponse(request.url, status, {"content-type": kind}, raw)

    event = f"before-send.kinesis.{operation}"
    for client in clients:
        client.meta.events.register(event, before_send)
    try:
        yield given
    finally:
        for client in clients:
            client.meta.events.unregister(event, before_send)


def error(code: str, status: int = 400) -> tuple[int, dict[str, Any]]:
    return status, {"__type": code, "message": f"{code}, as the service says it"}
