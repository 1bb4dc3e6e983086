"""The socket at which a session answers planning processes. The session is Spark's in name only."""

from __future__ import annotations

import gc
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

import flip27_stream
from examples.log_folder import LogFolder
from flip27_stream.spark.planning.batch_reader import Flip27BatchReader
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.planning.session_answers import ask, parallelism_now
from flip27_stream.spark.session.session_server import address_of
from flip27_stream.spark.source_spec import Driver
from flip27_stream.testing import wait_until
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.kafka_queries import CONTINUOUS, TIME_LIMIT_S, Output, start_files

WAIT_S = 60.0


@dataclass
class Context:
    defaultParallelism: int = 2


@dataclass(eq=False)
class Session:
    sparkContext: Context = field(default_factory=Context)


def address(session: Session) -> str:
    return address_of(cast(SparkSession, session))


def test_thread_and_folder_do_not_outlive_their_session() -> None:
    before = set(threading.enumerate())
    session = Session()
    path = Path(address(session))
    assert path.is_socket()
    (thread,) = set(threading.enumerate()) - before
    del session
    gc.collect()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert not path.parent.exists()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_end_of_a_forked_process_does_not_end_the_thread() -> None:
    session = Session()
    path = address(session)
    child = os.fork()
    if not child:
        del session
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)


def test_an_unknown_question_does_not_end_the_answers(caplog: pytest.LogCaptureFixture) -> None:
    session = Session()
    with pytest.raises(ValueError, match="Expecting value"):
        ask(address(session), WAIT_S, what="first begin")
    assert "A question of a planning process could not be answered" in caplog.text
    assert ask(address(session), WAIT_S, what="parallelism") == 2


@pytest.mark.parametrize("path", ["", "/no/such/socket"], ids=["no session", "a session that is gone"])
def test_without_an_answer_the_parallelism_is_that_of_the_registration(path: str) -> None:
    assert parallelism_now(Driver(parallelism=3, session=path)) == 3


def test_a_batch_has_a_task_for_each_core_that_came_after_the_registration(
    make: Callable[..., DrivenQuery],
) -> None:
    """CO-25: a standalone cluster gives a session before its executors have registered."""
    session = Session()
    query = make({name: [100] for name in "abcde"}, aligned=False)
    spec = replace(query.spec, driver=Driver(parallelism=2, session=address(session)))
    session.sparkContext.defaultParallelism = 4
    coordinator = SourceCoordinator(spec, query.clock, greatest_pause_s=0)
    wait_until(lambda: coordinator._parallelism._newest == 4, "the answer of the session", WAIT_S)
    end = coordinator.latest_offset(query.offset, None)
    assert len(coordinator.tasks(query.offset, end)) == 4
    session.sparkContext.defaultParallelism = 5
    coordinator._parallelism._ask()
    assert len(coordinator.tasks(query.offset, end)) == 4, (
        "a batch that is asked for twice has the same tasks"
    )
    coordinator.close()


def test_a_batch_read_has_a_task_for_each_core_that_came_after_the_registration(
    make: Callable[..., DrivenQuery],
) -> None:
    session = Session(Context(4))
    spec = make({name: [100] for name in "abcde"}, aligned=False).spec
    driver = Driver(parallelism=2, session=address(session))
    assert len(Flip27BatchReader(replace(spec, driver=driver)).partitions()) == 4


def test_a_batch_read_of_a_session_that_does_not_say_has_a_task_for_each_split(
    make: Callable[..., DrivenQuery],
) -> None:
    """A client of Spark Connect does not know how many tasks run at the same time."""
    spec = make({name: [100] for name in "abc"}, aligned=False).spec
    assert len(Flip27BatchReader(replace(spec, driver=Driver(parallelism=0))).partitions()) == 3


@pytest.mark.jvm
def test_a_query_runs_on_cores_that_came_after_the_registration(spark: SparkSession, tmp_path: Path) -> None:
    """The session has two cores. The format was registered as if there were one."""
    logs = [tmp_path / "logs" / f"{name}.log" for name in "ab"]
    logs[0].parent.mkdir()
    made = flip27_stream.data_source(LogFolder(str(logs[0].parent)), name="late_cores")
    made.driver = replace(made.driver, parallelism=1)  # type: ignore[attr-defined]
    spark.dataSource.register(made)
    stream = spark.readStream.format("late_cores").load().select(spark_partition_id().alias("task"))
    output = Output(tmp_path / "out", tmp_path / "checkpoint")
    writer = stream.writeStream.option("checkpointLocation", str(output.checkpoint)).trigger(**CONTINUOUS)
    query = start_files(spark, writer, str(output.table))

    def second_task() -> bool:
        assert query.isActive, query.exception()
        for path in logs:
            with path.open("a") as file:
                file.write("1 text\n")
        return any(row["task"] for row in output.rows())

    try:
        wait_until(second_task, "a batch with two tasks", TIME_LIMIT_S)
    finally:
        query.stop()
