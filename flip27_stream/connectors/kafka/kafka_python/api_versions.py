"""Asks a broker for the versions of each request that it supports (KIP-35)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kafka import errors as kafka_errors
from kafka.version import __version__ as client_version

from flip27_stream.connectors.kafka.kafka_python.messages import ApiVersionsRequest, BrokerVersionData

Ask = Callable[[Any, int], Any]
"""A function that sends a request (of kafka-python) in a version, and returns its response."""

_UNSUPPORTED_VERSION = kafka_errors.UnsupportedVersionError.errno


def ask_versions(ask: Ask) -> BrokerVersionData:
    """Returns the versions of requests that a broker supports. Brokers answer this before authentication.

    A broker that does not know the version of the ApiVersions request answers in version 0, with the supported versions
    (KIP-511).

    Raises:
        OSError: The broker does not answer, or refuses the request.
    """
    version: int = ApiVersionsRequest.max_version
    while True:
        request = ApiVersionsRequest(
            client_software_name="kafka-python", client_software_version=client_version
        )
        response = ask(request, version)
        spoken = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys or ()}
        if not response.error_code:
            return BrokerVersionData(api_versions=spoken)
        if response.error_code != _UNSUPPORTED_VERSION or version == 0:
            kind = kafka_errors.for_code(response.error_code).__name__
            raise ConnectionAbortedError(f"the broker does not send the versions that it supports: {kind}")
        version = min(version - 1, spoken.get(ApiVersionsRequest.API_KEY, (0, 0))[1])


def version_of(request: Any, versions: BrokerVersionData, least: int = 0, most: float = math.inf) -> int:
    """Returns the greatest version of a request, within bounds, that a broker and kafka-python support.

    Args:
        request: The request, or its type.
        versions: The versions of requests that the broker supports.
        least: The least version.
        most: The greatest version.

    Raises:
        IncompatibleBrokerVersion: There is no such version.
    """
    return int(versions.api_version(request, min_version=least, max_version=most))
