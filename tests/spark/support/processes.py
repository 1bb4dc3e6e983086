"""Functions about other processes: how they start quickly, whether they live, and which process started them.

The last two read ``/proc``.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from importlib.metadata import distribution
from pathlib import Path

from benchmarks.support.processes import below
from flip27_stream.testing.class_archive import ClassArchive

QUICK_JAVA = "-XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options for a JVM that runs tests.

Most tests run queries over some rows, whose code would be optimised for nothing: without the optimising compiler they
take some 15 % less time. The code cache must then be larger, since otherwise Spark's code is compiled again and again.
"""

_INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
"""Settings of Spark, as options of a JVM: it does not compile expressions, which takes longer than a test's rows."""

QUICK_CONF = {
    # A query that waits for data asks its source 18 times a second, not 92 times.
    "spark.sql.streaming.pollingDelay": "50",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
"""Settings for a session that runs queries over some rows, and often waits."""


def quick_start() -> dict[str, str]:
    """Returns the environment variables, by name, with which a test starts a process that runs Spark."""
    return {
        "JAVA_TOOL_OPTIONS": QUICK_JAVA,
        "SPARK_HOME": str(spark_home()),
        "SPARK_SUBMIT_OPTS": " ".join([*class_archive().options, _INTERPRETED]),
    }


def class_archive() -> ClassArchive:
    """Returns the archive of the classes that a driver loads, which ``make test`` makes."""
    return ClassArchive(spark_home() / "classes.jsa")


@functools.cache
def spark_home() -> Path:
    """Returns a home of the installed Spark without ``pyspark.zip``, in the environment of this Python.

    Each planning process and worker imports PySpark. It then imports the same modules from ``site-packages``, with
    their byte code, and not from the archive, which takes a second more of processor time each time.
    """
    installed = Path(str(distribution("pyspark").locate_file("pyspark")))
    home = Path(sys.prefix) / "spark-without-archive"
    if not home.exists():
        # Another process may create the folder at the same time.
        begun = home.with_name(f"{home.name}-{os.getpid()}")
        begun.mkdir()
        for entry in installed.iterdir():
            if entry.name != "python":
                (begun / entry.name).symlink_to(os.path.relpath(entry, home))
        try:
            begun.rename(home)
        except OSError:
            shutil.rmtree(begun)
    return home


def alive(pid: int) -> bool:
    """Whether a process runs. A process that has ended and was not waited for does not run."""
    return _state(pid) not in (None, "Z")


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _state(pid: int) -> str | None:
    return fields[0] if (fields := _stat(pid)) else None


def parent(pid: int) -> int:
    """Returns the parent of a process, or 0 if the process has ended."""
    return int(fields[1]) if (fields := _stat(pid)) else 0


def _stat(pid: int) -> list[str]:
    """Returns the fields of a process after its name, which can have any characters: state, parent, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def planners() -> list[int]:
    """Returns the planning processes of the Spark queries of this Python process."""
    return [pid for pid in below(os.getpid()) if "python_streaming_source_runner" in command(pid)]


def cpu_seconds(pid: int) -> float:
    """Returns the processor time of a process (s)."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
