"""The socket at which a session tells where first batches begin. The session is Spark's in name only."""

from __future__ import annotations

import gc
import os
import socket
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from flip27_stream.spark.session.first_batches import first_batches_of


class Session:
    sparkContext: Any = None


def test_thread_and_folder_do_not_outlive_their_session() -> None:
    before = set(threading.enumerate())
    session = Session()
    address = first_batches_of(cast(SparkSession, session))
    assert Path(address).is_socket()
    (thread,) = set(threading.enumerate()) - before
    del session
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()
    assert not Path(address).parent.exists()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_end_of_a_forked_process_does_not_end_the_thread() -> None:
    session = Session()
    address = first_batches_of(cast(SparkSession, session))
    child = os.fork()
    if not child:
        del session
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
