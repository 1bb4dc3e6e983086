"""The driver's folder for rows of split-watermark tables that the session writes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spool_root_of(spark: SparkSession) -> str:
    """Returns the folder of a session's driver; empty for a session of Spark Connect, which is elsewhere.

    There is one for each user and each warehouse, since tables of different warehouses can have the same name.
    """
    try:
        _ = spark.sparkContext
    except PySparkException:
        return ""
    warehouse = spark.conf.get("spark.sql.warehouse.dir", None) or ""
    of_warehouse = hashlib.sha256(warehouse.encode()).hexdigest()[:16]
    return str(Path(tempfile.gettempdir()) / f"flip27-stream-{os.getuid()}" / of_warehouse)
