"""What the planning process imports, and when: a query waits for it before its first rows. No JVM."""

from __future__ import annotations

import subprocess
import sys

_UNALIGNED = """
import sys
import flip27_stream.spark.planning.coordinator
import flip27_stream.connectors.kafka.planning.enumerator
print(sorted({"deltalake", "pandas"} & sys.modules.keys()))
"""

_ALIGNED = """
import sys, tempfile, threading
from unittest.mock import patch

from benchmarks.support.coordinators import kafka_coordinator
from benchmarks.support.simulated_cluster import SimulatedCluster
from flip27_stream.connectors.kafka.planning import enumerator
from offsets import INITIAL

cluster = SimulatedCluster("topic", 2)
cluster.end = 10
with patch.object(enumerator, "KafkaClient", lambda _: cluster), tempfile.TemporaryDirectory() as table:
    coordinator = kafka_coordinator("simulated:9092", "topic", table)
    coordinator.latest_offset(dict(INITIAL), None)
    for thread in threading.enumerate():
        if thread.name == "prepare-columns":
            thread.join()
    print("pandas" in sys.modules)
    coordinator.close()
"""


def test_a_query_without_alignment_does_not_import_the_library_of_the_table() -> None:
    assert _printed(_UNALIGNED) == "[]"


def test_what_rows_of_the_table_need_is_imported_while_spark_runs_the_first_batch() -> None:
    assert _printed(_ALIGNED) == "True"


def _printed(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.strip()
