"""Requests and responses over a blocking socket, one at a time."""

from __future__ import annotations

import socket
from typing import Any

from kafka.protocol.parser import KafkaProtocol


class Conversation:
    """The requests and responses over one blocking socket.

    Args:
        connection: The socket, which this object does not close.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._protocol = KafkaProtocol(client_id="flip27-stream")

    def ask(self, request: Any, version: int) -> Any:
        """Returns the response to a request, which is sent in ``version``.

        Raises:
            OSError: The broker closed the connection, or does not answer in time.
            KafkaError: The bytes are not such a response.
        """
        request.API_VERSION = version
        self._protocol.send_request(request)
        self._connection.sendall(self._protocol.send_bytes())
        while True:
            data = self._connection.recv(65536)
            if not data:
                raise ConnectionResetError("the broker closed the connection")
            for _, response in self._protocol.receive_bytes(data):
                return response
