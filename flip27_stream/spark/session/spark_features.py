"""The features that the installed Spark offers to Python streaming sources.

They are found by name and not by version, because managed runtimes port features back.
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
    """Checks that Python streaming sources of this Spark have read limits (``latestOffset(start, limit)``).

    Raises:
        UnsupportedSparkError: They have no read limits, as in the released Spark 4.0 and 4.1 (fact 32).
    """
    try:
        importlib.import_module(_ADMISSION_CONTROL)
    except ModuleNotFoundError as missing:
        raise UnsupportedSparkError(
            f"flip27-stream needs Spark 4.2 or a runtime with its module '{_ADMISSION_CONTROL}' (read limits for "
            f"Python streaming sources); this is Spark {pyspark.__version__}, which does not have it."
        ) from missing


def arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the Arrow schema that record batches of ``schema`` must have, with timestamps in UTC.

    Raises:
        PySparkException: Arrow has no type for one of the columns.
    """
    return to_arrow_schema(schema, timezone="UTC") if _NAMES_TIMEZONE else to_arrow_schema(schema)
