"""Fetches the jars of the Pulsar server, and makes the archive of its classes.

``python -m flip27_stream.testing.pulsar``
"""

from __future__ import annotations

import sys

from flip27_stream.errors import ConnectorError
from flip27_stream.testing.pulsar import server_jars
from flip27_stream.testing.pulsar.server import archive_classes

server_jars.main()
print("Pulsar server: archive of classes", flush=True)
try:
    archive_classes()
except (ConnectorError, ImportError) as error:
    sys.exit(f"Pulsar server: no archive, so servers start more slowly: {error}")
