"""Kills a query of any format at nine moments: its planning process, its workers, and once its driver.

A driver takes ten times as long to start again as the others. ``tests/spark/queries/test_restarts.py`` kills drivers at
more moments. What the connector has to do with it is the same at each of them: its planning process loses its JVM.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tests.spark.support.kafka_queries import KafkaQueries, Output
from tests.spark.support.processes import planners
from tests.spark.support.programs.killed_query import (
    Moment,
    Victims,
    driver,
    kill_python_when,
    logged,
    python_processes,
    workers,
    written,
)


class Freezing(Protocol):
    """A server that can be made silent, so that a plan or a task stops in the middle of a call."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


@dataclass(frozen=True)
class Kill:
    """A kill of processes of a query at some moment.

    Attributes:
        what: The moment in words.
        when: Makes the condition of the moment.
        whom: The processes; ``None`` for the driver and its JVM.
        delay_s: From the moment to the kill.
        is_frozen: Whether the server answers nobody from the moment on.
    """

    what: str
    when: Callable[[KafkaQueries, Output], Moment]
    whom: Victims | None = python_processes
    delay_s: float = 0
    is_frozen: bool = False


KILLS = (
    Kill("the first plan was logged", lambda _, out: logged(out, "offsets"), workers),
    Kill("the first batch was committed", lambda _, out: logged(out, "commits"), planners),
    Kill("a plan waits for the server", lambda _, out: logged(out, "commits"), planners, 0.2, is_frozen=True),
    Kill("tasks wait for the server", lambda _, out: logged(out, "offsets", 2), workers, 0.2, is_frozen=True),
    Kill("tasks read", lambda _, out: logged(out, "offsets", 2), workers, 0.1),
    Kill("files were written", lambda q, _: written(q.folder, "out/*.parquet", 2)),
    Kill("the table has the batch", lambda q, _: written(q.folder, "out/_spark_metadata/[0-9]*", 2)),
    Kill(
        "the table of split watermarks has it", lambda q, _: written(q.folder, "split_watermarks/*.parquet")
    ),
    Kill("a driver has written", lambda q, _: written(q.folder, "out/_spark_metadata/[0-9]*"), None),
)


def kill_at_nine_moments(
    queries: KafkaQueries,
    server: Freezing,
    source: str,
    options: Mapping[str, str],
    before: Callable[[int], None],
) -> None:
    """Kills the query ``out`` at each of :data:`KILLS`, and starts it again.

    Args:
        queries: Has the session, and the folder of the output.
        server: The server that is read.
        source: The format.
        options: The options of the source.
        before: Called with the number of each kill, before the query is started: writes, and changes the server.
    """
    output = queries.output()
    for number, kill in enumerate(KILLS):
        before(number)
        moment = kill.when(queries, output)

        def reached(moment: Moment = moment, kill: Kill = kill) -> bool:
            if moment():
                if kill.is_frozen:
                    server.pause()
                return True
            return False

        try:
            if kill.whom is None:
                argument = json.dumps({"source": source, "options": options, "folder": str(queries.folder)})
                module = "tests.spark.support.connector_driver"
                with driver(module, argument, queries.folder / "driver.log") as kill_when:
                    kill_when(reached, kill.what)
            else:
                stream = queries.spark.readStream.format(source).options(**options).load()
                kill_python_when(queries.start(stream), reached, kill.delay_s, kill.whom)
        finally:
            server.resume()
