"""What the Spark at hand offers to Python streaming sources.

It is found by feature and not by version, because managed runtimes port features back.
"""

from __future__ import annotations

import importlib
import inspect

import pyarrow as pa
import pyspark
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from flip27_stream.errors import UnsupportedSparkError

_ADMISSION_CONTROL = "pyspark.sql.streaming.datasource"
_NAMES_TIMEZONE = "timezone" in inspect.signature(to_arrow_schema).parameters


def check_admission_control() -> None:
    """Check that Python streaming sources of this Spark have read limits (``latestOffset(start, limit)``).

    Raises:
        UnsupportedSparkError: they have not, as in Spark 4.0 and 4.1 as released (fact 32).
    """
    try:
        importlib.import_module(_ADMISSION_CONTROL)
    except ModuleNotFoundError as missing:
        raise UnsupportedSparkError(
            f"flip27-stream needs Spark 4.2 or a runtime with its module '{_ADMISSION_CONTROL}' (read limits for "
            f"Python streaming sources); this is Spark {pyspark.__version__}, which does not have it."
        ) from missing


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of record batches of ``schema``, with timestamps in UTC.

    Raises:
        PySparkException: Arrow has nothing like one of the types.
    """
    return to_arrow_schema(schema, timezone="UTC") if _NAMES_TIMEZONE else to_arrow_schema(schema)
