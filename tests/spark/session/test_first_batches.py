"""The socket at which a session tells where first batches begin. The session is Spark's in name only."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any, cast

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
