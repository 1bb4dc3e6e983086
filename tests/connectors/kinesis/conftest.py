"""The two emulators of Kinesis, each started once for all tests of a process that use it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from flip27_stream.testing import KinesisServer
from flip27_stream.testing.kinesis import skip_reason

_names = itertools.count()


def _started(emulator: str) -> Iterator[KinesisServer]:
    if (reason := skip_reason()) is not None:
        pytest.skip(reason)
    with KinesisServer(emulator) as server:
        yield server


@pytest.fixture(scope="session")
def kinesis() -> Iterator[KinesisServer]:
    """The emulator kinesis-local."""
    yield from _started("kinesis-local")


@pytest.fixture(scope="session")
def kinesalite() -> Iterator[KinesisServer]:
    yield from _started("kinesalite")


@pytest.fixture(params=["kinesis-local", "kinesalite"])
def server(request: pytest.FixtureRequest) -> KinesisServer:
    """Each emulator in turn: a test that uses this fixture runs on both."""
    found: KinesisServer = request.getfixturevalue(
        "kinesis" if request.param == "kinesis-local" else "kinesalite"
    )
    return found


@pytest.fixture
def stream() -> str:
    """The name of a stream that does not exist."""
    return f"stream-{next(_names)}"
