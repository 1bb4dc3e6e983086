"""Answers questions of planning processes, which have no session, at a socket of the session's program.

It is a Unix socket in a folder that only this user may open. A question is a JSON object, up to the end of the stream.
Its field ``what`` names the question; the answer is JSON, too, ``null`` if it is not known:

``first begin``
    The offset at which the first batch of a checkpoint of Spark's own source begins. The field ``end`` has the offset
    that ends the batch, ``definition`` that of the :class:`SourceSpec`.
``parallelism``
    The number of tasks that can run at the same time now.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import tempfile
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flip27_stream.errors import ConnectorError
from flip27_stream.spark.session.first_batches import first_begin_in
from flip27_stream.threads import start

log = logging.getLogger(__name__)

_QUESTION_S = 10.0

_addresses: weakref.WeakKeyDictionary[SparkSession, str] = weakref.WeakKeyDictionary()


def address_of(spark: SparkSession) -> str:
    """Returns the path of the socket of a session; the first call starts to listen there.

    It is empty for a session of Spark Connect, and where such a socket cannot be opened.
    """
    if spark not in _addresses:
        _addresses[spark] = _listen(spark)
    return _addresses[spark]


def _listen(spark: SparkSession) -> str:
    try:
        _ = spark.sparkContext
        folder = Path(tempfile.mkdtemp(prefix="flip27-stream-"))
        listening = socket.socket(socket.AF_UNIX)
        weakref.finalize(spark, _stop, listening, folder, os.getpid())
        address = str(folder / "session")
        listening.bind(address)
        listening.listen()
        arguments = listening, weakref.ref(spark)
        start(threading.Thread(target=_serve, args=arguments, name="flip27-session", daemon=True))
    except (PySparkException, OSError, AttributeError, ConnectorError) as error:
        log.debug("No planning process can ask the session: %s", error)
        return ""
    return address


def _stop(listening: socket.socket, folder: Path, process: int) -> None:
    """Ends the thread of a session that is garbage-collected, or at the end of the process."""
    if os.getpid() != process:  # A forked process shares the socket and the folder.
        return
    with suppress(OSError):  # It was not listening.
        listening.shutdown(socket.SHUT_RDWR)
    shutil.rmtree(folder, ignore_errors=True)


def _serve(listening: socket.socket, session: weakref.ref[SparkSession]) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:  # stopped
            listening.close()
            return
        with connection:
            try:
                connection.settimeout(_QUESTION_S)
                with connection.makefile("rb") as question:
                    asked = json.load(question)
                spark = session()
                connection.sendall(b"null" if spark is None else _answer(spark, asked).encode())
            except OSError as error:
                log.debug("A planning process has ended or waits no longer for its answer: %s", error)
            except Exception as error:  # noqa: BLE001 - of the JVM and of any file system
                log.warning("A question of a planning process could not be answered: %s", error)


def _answer(spark: SparkSession, asked: Mapping[str, Any]) -> str:
    if asked["what"] == "parallelism":
        return json.dumps(parallelism_of(spark))
    return first_begin_in(spark, asked["end"], asked["definition"])


def parallelism_of(spark: SparkSession) -> int:
    """Returns the number of tasks that can run at the same time now; 0 for a session of Spark Connect."""
    try:
        parallelism: int = spark.sparkContext.defaultParallelism
    except PySparkException:  # Spark Connect has no SparkContext.
        return 0
    return parallelism
