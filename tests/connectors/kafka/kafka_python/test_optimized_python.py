"""The connector in a Python that leaves out ``assert`` statements (``python -O``, ``PYTHONOPTIMIZE``)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flip27_stream.testing import KafkaBroker
from tests.connectors.kafka.support.kit import write_rows

ROOT = Path(__file__).parents[4]

READ = """
import sys
from flip27_stream.connectors.kafka.source import KafkaSource
from flip27_stream.testing.source_query import SourceQuery

servers, topic = sys.argv[1:]
options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
with SourceQuery(KafkaSource(options)) as query:
    print(__debug__, len(query.run(3)))
"""


@pytest.mark.jvm
def test_a_python_without_assert_statements_reads_a_topic(
    broker: KafkaBroker, topic: Callable[..., str]
) -> None:
    """kafka-python reads a part of each response in an ``assert`` statement, which this Python leaves out."""
    name = topic()
    write_rows(broker, name, 3)
    command = [sys.executable, "-O", "-c", READ, broker.bootstrap_servers, name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout == "False 3\n", done.stderr
