"""The check that formats are registered with a session that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_running(given: object) -> None:
    """Checks that ``given`` is a session, of Spark or of Spark Connect, that was not stopped.

    Raises:
        ValueError: It is something else, such as ``SparkSession.builder``; or it was stopped. A notebook or a test that
            makes its session again can still hold the former one.
    """
    if not hasattr(type(given), "readStream"):
        raise ValueError(
            f"Give register() a SparkSession, as SparkSession.builder.getOrCreate() returns it, not {given!r}."
        )
    try:
        _ = cast("SparkSession", given).sparkContext.defaultParallelism
    except PySparkException as error:  # Spark Connect has no SparkContext.
        if getattr(given, "is_stopped", False):
            raise _stopped() from error
    except Exception as error:  # Of Python or of Java, by how the session ended.
        raise _stopped() from error


def _stopped() -> ValueError:
    return ValueError(
        "The Spark session that register() was given is stopped. Create a session with "
        "SparkSession.builder.getOrCreate(), and register the formats with that one."
    )
