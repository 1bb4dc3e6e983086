"""Fetches every set of jars, with a line for each step: ``python -m flip27_stream.testing``.

Then it makes the archive of the classes that a Kafka broker loads.
"""

from __future__ import annotations

import sys

from flip27_stream.errors import ConnectorError
from flip27_stream.testing import jars
from flip27_stream.testing.kafka.node import archive_classes


def say(line: str) -> None:
    print(line, flush=True)


for jar_set in jars.ALL:
    say(f"{jar_set.name}: {', '.join(jar_set.artifacts)}")
    try:
        fetched = jars.fetch(jar_set, say)
    except ConnectorError as error:
        sys.exit(str(error))
    say(f"{jar_set.name}: {len(fetched)} jars, {sum(jar.stat().st_size for jar in fetched) >> 20} MB")
say("kafka-broker: archive of classes")
try:
    archive_classes()
except ConnectorError as error:
    say(f"kafka-broker: no archive, so brokers start more slowly: {error}")
