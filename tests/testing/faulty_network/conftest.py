"""Fixtures: an echo server behind a link of a faulty network, and clients of that link."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from flip27_stream.testing import (
    FaultyNetwork,
    Link,
)
from tests.testing.support.echo import EchoClient, EchoServer


@pytest.fixture
def server() -> Iterator[EchoServer]:
    running = EchoServer()
    yield running
    running.close()


@pytest.fixture
def network() -> Iterator[FaultyNetwork]:
    with FaultyNetwork() as running:
        yield running


@pytest.fixture
def link(server: EchoServer, network: FaultyNetwork) -> Link:
    return network.link("echo", server.address)


@pytest.fixture
def connect(link: Link) -> Iterator[Callable[[], EchoClient]]:
    with ExitStack() as open_clients:

        def connected() -> EchoClient:
            client = EchoClient(link)
            open_clients.enter_context(client.socket)
            return client

        yield connected
