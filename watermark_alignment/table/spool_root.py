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
    """Returns the path of the folder on a session's driver; empty for Spark Connect, whose driver is elsewhere.

    Each user and each warehouse has a folder, because tables of different warehouses can have the same name.
    """
    try:
        _ = spark.sparkContext
    except PySparkException:
        return ""
    warehouse = spark.conf.get("spark.sql.warehouse.dir", None) or ""
    of_warehouse = hashlib.sha256(warehouse.encode()).hexdigest()[:16]
    return str(Path(tempfile.gettempdir()) / f"flip27-stream-{os.getuid()}" / of_warehouse)
