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
    """Returns the path of the folder on a session's driver.

    Each user and each warehouse has a folder, because tables of different warehouses can have the same name. There is
    no folder (an empty path) for Spark Connect, whose driver is elsewhere, or if the driver can write no temporary
    files.
    """
    try:
        _ = spark.sparkContext
        temporary = tempfile.gettempdir()
    except (PySparkException, FileNotFoundError):
        return ""
    warehouse = spark.conf.get("spark.sql.warehouse.dir", None) or ""
    of_warehouse = hashlib.sha256(warehouse.encode()).hexdigest()[:16]
    return str(Path(temporary) / f"flip27-stream-{os.getuid()}" / of_warehouse)
