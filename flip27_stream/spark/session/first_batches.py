"""Tells planning processes where the first batch of a checkpoint of Spark's own source begins.

That is not in the offset log. Spark's source keeps it in a file ``sources/N/0`` of the checkpoint, which a planning
process cannot find: it does not know its checkpoint. The session knows those of its queries.
"""

from __future__ import annotations

import atexit
import json
import logging
import shutil
import socket
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flip27_stream.errors import ConnectorError
from flip27_stream.threads import start

log = logging.getLogger(__name__)

_QUESTION_S = 10.0
_HEAD = 2  # lines before the offsets in a file of the offset log: its version and the metadata

_addresses: weakref.WeakKeyDictionary[SparkSession, str] = weakref.WeakKeyDictionary()


def first_batches_of(spark: SparkSession) -> str:
    """Returns the address at which a session tells where first batches begin; the first call starts to listen there.

    It is a Unix socket in a folder that only this user may open. A question is an end offset as JSON, up to the end of
    the stream. The answer is the offset at which the first batch begins that ends there, as JSON; ``null`` if this is
    not known. The address is empty for a session of Spark Connect, and where such a socket cannot be opened.
    """
    if spark not in _addresses:
        _addresses[spark] = _listen(spark)
    return _addresses[spark]


def _listen(spark: SparkSession) -> str:
    try:
        _ = spark.sparkContext
        folder = Path(tempfile.mkdtemp(prefix="flip27-stream-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        address = str(folder / "first-batches")
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(address)
        listening.listen()
        arguments = listening, weakref.ref(spark)
        start(threading.Thread(target=_serve, args=arguments, name="first-batches", daemon=True))
    except (PySparkException, OSError, AttributeError, ConnectorError) as error:
        log.debug("no process can ask where a first batch begins: %s", error)
        return ""
    return address


def _serve(listening: socket.socket, session: weakref.ref[SparkSession]) -> None:
    while True:
        connection, _ = listening.accept()
        answer = None
        with connection:
            try:
                connection.settimeout(_QUESTION_S)
                end = json.loads(b"".join(iter(lambda c=connection: c.recv(65536), b"")))  # type: ignore[misc]
                spark = session()
                begins = {json.dumps(begin) for begin in _begins(spark, end)} if spark is not None else ()
                answer = begins.pop() if len(begins) == 1 else None
                del spark
                connection.sendall((answer or "null").encode())
            except Exception as error:  # noqa: BLE001 - of the JVM and of any file system
                log.warning("Where a first batch begins was not found out: %s", error)


def _begins(spark: SparkSession, end: Any) -> Iterator[Any]:
    """Yields where the first batches begin that end at ``end``, of the active queries that have not committed it."""
    for query in spark.streams.active:
        root = query._jsq.streamingQuery().resolvedCheckpointRoot()
        planned = _text(spark, root, "offsets/0")
        if planned is None or _text(spark, root, "commits/0") is not None:
            continue
        for number, line in enumerate(planned.splitlines()[_HEAD:]):
            if line.startswith("{") and json.loads(line) == end:
                begin = _text(spark, root, f"sources/{number}/0")
                if begin is not None:
                    yield json.loads(begin.partition("\n")[2])


def _text(spark: SparkSession, root: str, name: str) -> str | None:
    """Returns the text of a file in a checkpoint, with Hadoop's file systems; ``None`` if there is no such file."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(root, name)
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if not files.exists(path):
        return None
    stream = files.open(path)
    try:
        text: str = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    return text
