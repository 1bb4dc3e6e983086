"""The jars of the Pulsar server: ``python -m flip27_stream.testing.pulsar`` fetches them, in some minutes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from flip27_stream.errors import ConnectorError
from flip27_stream.testing import jars
from flip27_stream.testing.server import servers_directory


def fetch() -> list[Path]:
    """Returns the jars of the server. They are downloaded if they are missing."""
    return jars.fetch(jars.PULSAR_SERVER, directory=servers_directory())


def skip_reason() -> str | None:
    """Returns the reason why tests against a server cannot run on this machine; ``None`` if they can."""
    if importlib.util.find_spec("pulsar") is None:
        return "pulsar-client is not installed, and the tests against a Pulsar server need it"
    try:
        if jars.is_fetched(jars.PULSAR_SERVER, servers_directory()):
            return None
    except ConnectorError as error:
        return f"the jars of the Pulsar server cannot be fetched: {error}"
    return "the jars of the Pulsar server are missing; 'make servers' fetches them, or prints the reason why it cannot"


def main() -> None:
    """Fetches the jars and prints where they are."""
    print("Pulsar server: jars of Pulsar 3.0.0 (93 MB, some minutes the first time)", flush=True)
    try:
        found = jars.fetch(jars.PULSAR_SERVER, lambda line: print(line, flush=True), servers_directory())
    except ConnectorError as error:
        sys.exit(str(error))
    print(f"Pulsar server: {len(found)} jars are in {found[0].parent}", flush=True)
