"""A listener that writes a split-watermark table of a catalog, by its name, with delta-spark, from the session.

It gets the rows of each batch in a file of the driver's folder. With them it also compares the ``withWatermark`` of
queries with alignment, as :class:`StatusListener` does for a table at a path or URI.
"""

from __future__ import annotations

import atexit
import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from flip27_stream.errors import AlignmentError, ConnectorError, shortened
from flip27_stream.threads import start
from watermark_alignment.group.member_info import members_in
from watermark_alignment.monitoring.progress import our_sources
from watermark_alignment.monitoring.query_watermark import QueryWatermark
from watermark_alignment.options import called
from watermark_alignment.table.catalog_spool import PAUSE_S, CatalogSpool, SpooledCommit
from watermark_alignment.table.file_lock import FileLock
from watermark_alignment.table.split_rows import SCHEMA
from watermark_alignment.table.spool_root import spool_root_of
from watermark_alignment.table.written_batches import WrittenBatches
from watermark_alignment.table_location import catalog_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_LOOK_S, _LAST_RETRY_S = 0.5, 30.0
_MOST_QUERIES = 100
_TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.timestamp("us", tz="UTC"): "timestamp"}
_COLUMNS = {field.name: _TYPES[field.type] for field in SCHEMA}


class CatalogTableWriter(StreamingQueryListener):
    """Writes the rows of queries whose ``scan.watermark.alignment.table`` is the name of a table in a catalog.

    Add it before such a query starts, otherwise the query fails at its start. The table is created if it does not
    exist. The planning processes store the rows of each batch in a folder of the driver, the spool. A thread writes
    them with delta-spark, some batches in one commit. An application transaction in each commit makes sure that each
    batch is written once.

    Rows that are still in the spool when the session ends are written by the next session on the same driver. To have
    all rows in the table before the session ends, call :meth:`flush`.

    A warning is logged once if the delay of ``withWatermark`` in such a query is too short, or if ``withWatermark``
    uses another column than alignment. If several sessions of a driver write the same table, a session cannot warn
    about batches that another session has written.

    Args:
        spark: The session, not one of Spark Connect.
        table: The name of the table, such as ``main.streaming.split_watermarks``.

    Attributes:
        spool: The folder on the driver with the rows that are not in the table yet.

    Raises:
        AlignmentError: The session cannot write such a table, or the table has other columns.

    Example::

        spark.streams.addListener(CatalogTableWriter(spark, "main.streaming.split_watermarks"))
    """

    def __init__(self, spark: SparkSession, table: str) -> None:
        if catalog_name(table) is None:
            raise AlignmentError(
                f"'{table}' is not the name of a table in a catalog, such as main.streaming.split_watermarks. A "
                "table at a path or URI needs no CatalogTableWriter: queries write it themselves."
            )
        self._spark = spark
        self._table = table
        self.spool = CatalogSpool(spool_root_of(spark), table)
        self.spool.create()
        _create_table(spark, table)
        self._writer_lock = self.spool.writer_lock()
        self._turn = FileLock(self.spool.folder / "turn.lock")
        self._written = WrittenBatches(self.spool.folder / "written.json")
        self._watermarks: dict[
            str, tuple[str, QueryWatermark]
        ] = {}  # The watermarks of the latest runs, by the query's id.
        self._told: set[tuple[str, ...]] = set()
        self._changed = threading.Condition()
        self._is_urgent = self._failing = self._closing = False
        self._thread: threading.Thread | None = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Starts the thread. Spark calls it before the query plans its first batch."""
        with self._changed:
            if self._thread is None:
                while not self._writer_lock.acquire(
                    shared=True
                ):  # A planning process checks now that a writer exists.
                    time.sleep(PAUSE_S)
                self._start()

    def _start(self) -> None:
        """Starts the thread. If that fails, rows wait, and the next progress of a query tries again."""
        thread = threading.Thread(target=self._run, name="split-watermark-catalog", daemon=True)
        try:
            start(thread)
        except ConnectorError as error:
            self._warn_of(error)
        else:
            self._thread = thread
            atexit.register(self.flush, 10.0)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Takes in the watermark of the query. The rows of the batch follow when the next batch is planned."""
        progress = json.loads(event.progress.json)
        with self._changed:
            if self._failing and self._thread is None and not self._closing:
                self._start()
        if sources := our_sources(progress):
            query, run = progress["id"], progress["runId"]
            with self._changed:
                if query not in self._watermarks or self._watermarks[query][0] != run:
                    self._watermarks[query] = run, QueryWatermark()
                self._watermarks[query][1].take_in(progress, sources)
                while len(self._watermarks) > _MOST_QUERIES:
                    del self._watermarks[next(iter(self._watermarks))]

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Does nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Does nothing: the thread goes on, since the planning process may still have rows."""

    def flush(self, timeout_s: float = 60.0) -> bool:
        """Waits until all rows in the spool are in the table. Returns false on time-out.

        Args:
            timeout_s: The time-out (s).
        """
        deadline = time.monotonic() + timeout_s
        while self.spool.pending():
            if self._thread is None or time.monotonic() > deadline:
                return False
            with self._changed:
                self._is_urgent = True
                self._changed.notify_all()
            time.sleep(0.05)
        return True

    def close(self) -> None:
        """Ends the thread; unwritten rows stay in the spool. Queries of this table that start later fail."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            atexit.unregister(self.flush)
        self._writer_lock.release()

    def _run(self) -> None:
        pause_s = _LOOK_S
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_urgent or self._closing, pause_s)
                self._is_urgent = False
                if self._closing:
                    return
            try:
                self._keep_place()
                self.write_pending()
                self._failing, pause_s = False, _LOOK_S
            except Exception as error:  # noqa: BLE001 - the thread has to survive
                self._warn_of(error)
                pause_s = min(pause_s * 2, _LAST_RETRY_S)

    def _keep_place(self) -> None:
        """Makes the spool and its lock again if temporary files were cleaned up: queries need both to start."""
        self.spool.create()
        self._writer_lock.acquire(shared=True)

    def _warn_of(self, error: Exception) -> None:
        """Logs an error once, until writing works again."""
        if not self._failing:
            log.warning(
                "The split-watermark table '%s' cannot be written: %s. Queries go on. Their rows stay in %s, and "
                "writing is tried again.",
                self._table,
                shortened(" ".join(str(error).split()).rstrip(".")),
                self.spool.folder,
            )
        self._failing = True

    def write_pending(self) -> None:
        """Writes all commits in the spool, unless another session on this driver does that now."""
        if not self.spool.pending() or not self._turn.acquire():
            return
        try:
            for app, commits in self.spool.pending().items():
                while commits:
                    run, commits = self._written.next_run(app, commits)
                    self._write(run, self._written.begin(app, run))
                    for commit in run:
                        commit.file.unlink(missing_ok=True)
        finally:
            self._turn.release()

    def _write(self, run: Sequence[SpooledCommit], version: int) -> None:
        """Appends the rows of ``run`` as ``version`` of their application, if the table does not have it yet."""
        contents = [commit.read() for commit in run]
        rows = pa.concat_tables([rows for _, rows, _ in contents])
        for _, _, metadata in contents:
            self._check_watermarks(metadata)
        app_id, _, metadata = contents[-1]
        if rows.num_rows:
            frame = self._spark.createDataFrame(rows).coalesce(1).write.format("delta").mode("append")
            frame = frame.option("txnAppId", app_id).option("txnVersion", version)
            frame.option("userMetadata", json.dumps(metadata)).saveAsTable(self._table)

    def _check_watermarks(self, metadata: Mapping[str, str]) -> None:
        """Warns of mistakes in ``withWatermark``, each once; ``metadata`` is that of the commit of a batch."""
        infos = members_in([metadata])
        notes = {
            called(m.source, info.reads): info.note for m, info in infos.items() if info.note is not None
        }
        with self._changed:
            for _, watermark in self._watermarks.values():
                for about, text in watermark.findings(notes):
                    if about not in self._told:
                        self._told.add(about)
                        log.warning("%s", text)


def _create_table(spark: SparkSession, table: str) -> None:
    """Creates the table if it does not exist, and checks its columns.

    Raises:
        AlignmentError: The session may not create the table, or the table has other columns.
    """
    # The setting spark.sql.timestampType may give the name timestamp to another type.
    kinds = {name: kind.replace("timestamp", "timestamp_ltz") for name, kind in _COLUMNS.items()}
    columns = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
    try:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING delta")
        found = dict(spark.table(table).dtypes)
    except PySparkException as error:
        raise AlignmentError(
            f"The split-watermark table '{table}' cannot be created or read. Check that the catalog and the schema "
            "exist, that this user may create and change tables there, and that the session has Delta Lake. "
            f"Spark says: {shortened(' '.join(str(error).split()))}"
        ) from error
    if found != _COLUMNS:
        wrong = sorted(found.items() ^ _COLUMNS.items())[0][0]
        raise AlignmentError(
            f"Table '{table}' does not have the columns of a split-watermark table; column '{wrong}' differs. Name "
            f"another table, or one that does not exist yet. The columns are: {columns}."
        )
