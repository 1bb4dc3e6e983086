"""The check that formats are registered with a session that runs."""

from __future__ import annotations

from typing import Any


def check_running(given: Any) -> None:
    """Checks that ``given`` is a session, of Spark or of Spark Connect, that was not stopped.

    Raises:
        ValueError: It is something else, such as ``SparkSession.builder``; or it was stopped. A notebook or a test that
            makes its session again can still hold the former one.
    """
    if not hasattr(type(given), "readStream"):
        raise ValueError(
            f"Give register() a SparkSession, as SparkSession.builder.getOrCreate() returns it, not {given!r}."
        )
    if _is_stopped(given):
        raise ValueError(
            "The Spark session that register() was given is stopped. Create a session with "
            "SparkSession.builder.getOrCreate(), and register the formats with that one."
        )


def _is_stopped(session: Any) -> bool:
    """Returns whether a session is known to be stopped. A platform may keep Python from finding that out."""
    if hasattr(type(session), "is_stopped"):
        return bool(session.is_stopped)  # of Spark Connect
    try:
        _ = session.sparkContext.defaultParallelism
    except AttributeError:  # PySpark has dropped its Java context.
        return True
    except Exception as error:  # noqa: BLE001 - of Java, or of a platform that guards the JVM
        return "stopped SparkContext" in str(error)
    return False
