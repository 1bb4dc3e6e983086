"""The names of formats: those that are taken, and the check of a new one."""

from __future__ import annotations

import re
from typing import Final

BUILT_IN_FORMATS: Final = ("flip27_kafka", "flip27_files", "flip27_kinesis", "flip27_pulsar")
"""The names of the formats that ``flip27_stream.register`` registers."""

# fmt: off
SPARK_FORMATS: Final = (
    "avro", "binaryFile", "console", "csv", "delta", "hive", "image", "jdbc", "json", "kafka",
    "libsvm", "noop", "orc", "parquet", "rate", "rate-micro-batch", "socket", "state-metadata",
    "statestore", "text", "xml",
)
# fmt: on
"""The names of the formats of Spark and its libraries, which Spark looks up before those that are registered."""

_TAKEN: Final = frozenset(name.lower() for name in SPARK_FORMATS)


def check_name(name: object) -> None:
    """Checks the name of a format.

    Raises:
        ValueError: It is no text, has other characters than Spark's ``format`` and SQL take, or is the name of a format
            of Spark.
    """
    said = f"data_source() was given the name {name!r}"
    if not isinstance(name, str):
        raise ValueError(
            f"{said}, which is of type {type(name).__name__}. Give a text of letters, digits, '_', '-' and '.' only."
        )
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise ValueError(f"{said}. Give a name of letters, digits, '_', '-' and '.' only.")
    if name.lower() in _TAKEN:
        raise ValueError(
            f"{said}, which is a format of Spark, and Spark would read that one. Give another name, such as "
            f"'my_{name.lower()}'."
        )


def check_name_of_user(name: object) -> None:
    """Checks the name that a user gives the format of a source.

    Raises:
        ValueError: :func:`check_name` refuses it, or it is the name of a format of this package.
    """
    check_name(name)
    if str(name).lower() in BUILT_IN_FORMATS:
        raise ValueError(
            f"data_source() was given the name {name!r}, which is a format of flip27_stream. Give another name."
        )
