"""The request classes of kafka-python, and functions that encode and decode them."""

from __future__ import annotations

from typing import Any

from kafka.cluster import collect_hosts, expand_to_canonical_bootstrap_hosts
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslBytesRequest, SaslHandshakeRequest
from kafka.protocol.schemas.fields.codecs.tagged_fields import TaggedFields, UnsignedVarInt32

__all__ = [
    "ApiVersionsRequest",
    "BrokerVersionData",
    "FetchRequest",
    "FindCoordinatorRequest",
    "ListOffsetsRequest",
    "MetadataRequest",
    "OffsetCommitRequest",
    "OffsetFetchRequest",
    "OffsetForLeaderEpochRequest",
    "SaslAuthenticateRequest",
    "SaslBytesRequest",
    "SaslHandshakeRequest",
    "bootstrap_addresses",
    "decoded",
    "encoded",
]


def _skip_no_tags(data: Any) -> None:
    """Reads the number of tags of a structure that has none.

    kafka-python reads it inside an ``assert`` statement. ``python -O`` (``PYTHONOPTIMIZE``) leaves out that statement,
    and would then take the number for the field that comes next.

    Raises:
        ValueError: There are tags.
    """
    if count := UnsignedVarInt32.decode(data):
        raise ValueError(f"a structure without tags has {count} tags")


if not __debug__:
    TaggedFields.decode_empty = staticmethod(_skip_no_tags)


def encoded(request: Any, version: int, correlation_id: int, client_id: str) -> bytes:
    """Returns the bytes of a request, with its size and header in front."""
    request.API_VERSION = version
    request.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(request.encode(framed=True, header=True))


def decoded(request: Any, version: int, correlation_id: int, body: bytes) -> Any:
    """Returns the response to a request that :func:`encoded` made.

    Args:
        request: The request.
        version: The version in which it was sent.
        correlation_id: The id with which it was sent.
        body: The bytes of the response after the correlation id.

    Raises:
        ValueError, IndexError, struct.error: the bytes are not such a response.
    """
    response = request.header.get_response_class()
    return response.decode(correlation_id.to_bytes(4, "big") + body, version=version, header=True)


def bootstrap_addresses(servers: str, *, canonical: bool) -> list[tuple[str, int]]:
    """Returns host and port of each bootstrap server, in the order in which they are given.

    Args:
        servers: ``host:port``, several with commas between.
        canonical: Whether each name is replaced by the canonical names of its addresses.
    """
    hosts = collect_hosts(servers, randomize=False)
    if canonical:
        hosts = expand_to_canonical_bootstrap_hosts(hosts)
    return [(host, port) for host, port, _ in hosts]
