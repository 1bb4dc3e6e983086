"""A Pulsar server, started once for all tests of a process that use it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from flip27_stream.testing import PulsarServer
from flip27_stream.testing.pulsar import skip_reason

_names = itertools.count()


@pytest.fixture(scope="session")
def pulsar_server() -> Iterator[PulsarServer]:
    if (reason := skip_reason()) is not None:
        pytest.skip(reason)
    with PulsarServer() as server:
        yield server


@pytest.fixture
def topic() -> str:
    """The name of a topic that does not exist yet."""
    return f"topic-{next(_names)}"
