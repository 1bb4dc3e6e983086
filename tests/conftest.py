"""Fixtures for all tests.

A server starts with the first test that needs it and runs until the last test has ended.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.testing import KafkaBroker, local_session, wait_until
from tests.spark.support.processes import QUICK_CONF, alive, planners, quick_start
from tests.support.exploring import EXPLORES, examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# There are no deadlines for examples, since a shared machine sometimes pauses.
settings.register_profile(
    "flip27",
    deadline=None,
    max_examples=examples(200),
    derandomize=not EXPLORES,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("flip27")


# The time limit (s) of a test with real servers, which ends a test that hangs. A busy machine needs longer.
SERVERS_TIMEOUT_S = 900

_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Makes Spark write checkpoints with Hadoop's ``FileSystem``, as it does where ``FileContext`` is not supported.

Without Hadoop's native library, Spark's default for a local folder starts eight processes (``readlink``, ``chmod``) for
each file, which is sixteen for each micro-batch. This one starts two for each file.
"""

_CONF = QUICK_CONF | {"spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives the tests with real servers, and those that build the site, more time than the others (``setup.cfg``)."""
    for item in items:
        if any(item.get_closest_marker(name) for name in ("jvm", "node", "docs")):
            item.add_marker(pytest.mark.timeout(SERVERS_TIMEOUT_S))


def pytest_collection_finish() -> None:
    """Leaves all that was collected, which stays to the end, out of garbage collection. It would be searched often."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """The Kafka broker that all tests share. A test leaves it running, and uses topics of its own (:func:`topic`)."""
    with KafkaBroker() as running:
        yield running


@pytest.fixture(scope="session")
def secure_broker() -> Iterator[KafkaBroker]:
    """The Kafka broker with every secure listener and an empty topic named ``there``.

    Tests share it and leave it running.
    """
    with KafkaBroker(listeners=["SASL_PLAINTEXT", "SSL", "SASL_SSL", "MUTUAL_TLS"]) as running:
        running.create_topic("there")
        yield running


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The Spark session that all tests share: ``local[2]``, with Delta and Spark's built-in Kafka source.

    Drivers that a test starts itself, as those that it kills, write checkpoints as Spark does by default.
    """
    with pytest.MonkeyPatch.context() as environment:
        for name, value in quick_start().items():
            environment.setenv(name, value)
        session = local_session("flip27-tests", kafka_source=True, conf=_CONF)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def coordinators(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes the source coordinators that a test leaves open.

    Otherwise their group members would live on in their threads.
    """
    made: list[SourceCoordinator] = []
    begin = SourceCoordinator.__init__

    def recorded(self: SourceCoordinator, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        made.append(self)

    monkeypatch.setattr(SourceCoordinator, "__init__", recorded)
    yield
    for coordinator in made:
        coordinator.close()


@pytest.fixture(autouse=True)
def ended_planners(request: pytest.FixtureRequest) -> Iterator[None]:
    """Waits after a test on Spark until its planning processes have ended.

    One that stays fails the test that started it.
    """
    if "spark" not in request.fixturenames:
        yield
        return
    of_others = set(planners())
    yield
    while left := set(planners()) - of_others:
        wait_until(lambda: not any(map(alive, left)), "the end of the planning processes of this test", 60)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Returns a function that creates a topic for the test: ``topic(partitions=1, config=None)`` returns its name."""
    shared: KafkaBroker = request.getfixturevalue("broker")

    def create(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"topic-{next(_numbers)}"
        shared.create_topic(name, partitions, config)
        return name

    return create


_numbers = itertools.count(1)
