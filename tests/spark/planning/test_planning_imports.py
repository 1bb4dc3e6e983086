"""What the planning process imports, and when. A query waits for this process before its first rows. No JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ALIGNED = """
import sys
from unittest.mock import patch

from benchmarks.support.coordinators import kafka_coordinator
from benchmarks.support.simulated_cluster import SimulatedTopic
from flip27_stream.connectors.kafka.planning import enumerator
from offsets import INITIAL
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

cluster = SimulatedTopic("topic", 2)
cluster.end = 10
with patch.object(enumerator, "KafkaClient", lambda _: cluster):
    coordinator = kafka_coordinator("simulated:9092", "topic", sys.argv[1])
    first = coordinator.latest_offset(dict(INITIAL), None)
    second = coordinator.latest_offset(first, None)
    coordinator.latest_offset(second, None)
    coordinator.close()
print("pandas" in sys.modules, SplitWatermarkTable(sys.argv[1], {}).rows().num_rows > 0)
"""


def test_an_aligned_query_does_not_import_pandas(tmp_path: Path) -> None:
    """PyArrow imports pandas when Python values become a column, which takes half a second of processor time."""
    done = subprocess.run(
        [sys.executable, "-c", _ALIGNED, str(tmp_path / "table")],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.split() == ["False", "True"]


_EARLY = """
import pickle, sys

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.spark.planning.stream_reader import Flip27StreamReader
from flip27_stream.spark.source_spec import Driver, SourceSpec

source = KafkaSource({"kafka.bootstrap.servers": "nowhere:9092", "subscribe": "topic"})
reader = Flip27StreamReader(SourceSpec(source, WatermarkStrategy(), None, Driver()))
coordinator = "flip27_stream.spark.planning.coordinator"
before = "kafka" in sys.modules or coordinator in sys.modules
reader.getDefaultReadLimit()
pickle.dumps(reader)
print(before, coordinator in sys.modules, "flip27_stream.connectors.kafka.planning.enumerator" in sys.modules)
"""


def test_planning_is_imported_once_spark_has_asked_for_the_limit() -> None:
    """Spark asks in the planning process only, as it starts the query, and before the first micro-batch."""
    done = subprocess.run(
        [sys.executable, "-c", _EARLY], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == ["False", "True", "True"]


_STORE = """
from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.errors import AlignmentError
from flip27_stream.spark.planning.stream_reader import Flip27StreamReader
from flip27_stream.spark.source_spec import Driver, SourceSpec

source = KafkaSource({"kafka.bootstrap.servers": "nowhere:9092", "subscribe": "topic"})
reader = Flip27StreamReader(SourceSpec(source, WatermarkStrategy(), None, Driver()))
reader.getDefaultReadLimit()
reader.initialOffset()
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
try:
    SplitWatermarkTable("s3://bucket/table", {}).open()
except AlignmentError as error:
    print(error)
"""


def test_delta_rs_logs_nothing_before_our_error_about_a_store() -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and k != "RUST_LOG"}
    environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:1"
    done = subprocess.run(
        [sys.executable, "-c", _STORE],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=True,
    )
    assert done.stdout.startswith(
        "The split-watermark table at 's3://bucket/table' cannot be opened. The store"
    )
    assert done.stderr == ""
