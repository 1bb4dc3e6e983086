"""A check that a fetch connection is authenticated."""

from __future__ import annotations

from flip27_stream.connectors.kafka.fetching.fetch_connection import FetchConnection
from flip27_stream.connectors.kafka.kafka_python.messages import MetadataRequest


def answers(connection: FetchConnection) -> bool:
    """Returns whether a request gets an answer. A connection that did not authenticate gets no answer."""
    connection.send(MetadataRequest(topics=[], allow_auto_topic_creation=False), 5)
    while (body := connection.receive()) is None:
        pass
    return len(body) > 20
