"""The maintenance of the split-watermark table: expiry of rows, compaction, vacuum, checkpoint and clean-up of the log.

The duration of a commit grows with the number of commits since the last checkpoint, and with the number of active
files. Maintenance bounds both. It is due at certain versions of the table, like Delta's own ``checkpointInterval``. The
process that made such a version does the maintenance, whatever the number and the lifetime of the members.

Two members can run a round at the same time. Then one of the rounds fails early, and nothing is lost. Appends do not
conflict with a round.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import FileSystem

from flip27_stream.errors import AlignmentError
from flip27_stream.options.durations import parse_duration
from flip27_stream.parquet_rows import row_batches
from flip27_stream.wall_clock import now_ms
from watermark_alignment.table.split_rows import SCHEMA
from watermark_alignment.table.split_watermark_table import NO_HOOKS, SplitWatermarkTable
from watermark_alignment.table.storage.lost_commits import put_lost_checkpoint_aside
from watermark_alignment.table.storage.table_files import whole_file
from watermark_alignment.table.storage.unfinished_files import remove_unfinished

log = logging.getLogger(__name__)

ROW_RETENTION = "flip27.rowRetentionDuration"
"""The table property with the time for which rows are kept after they were recorded.

They are kept up to an eighth longer, so that not every round must rewrite old data.
"""
ROW_RETENTION_DEFAULT = "interval 7 days"

CHECKPOINT_EVERY = 20
ROUND_EVERY = 5 * CHECKPOINT_EVERY

_FILE_RETENTION = "delta.deletedFileRetentionDuration"
_TARGET_BYTES = 16 << 20
_GROUP_ROWS = 1 << 17  # About 30 MB in memory.
_ATTEMPTS = 10
_FAILURES_TO_WARN_OF = 3
_OWN_FILE = re.compile(r"part-[^/]*\.parquet")


class _Step(NamedTuple):
    """One step of maintenance.

    Attributes:
        name: A description of the step.
        run: Runs the step.
    """

    name: str
    run: Callable[[], object]


class _File(NamedTuple):
    path: str
    size: int
    modified: int
    oldest: datetime | None


class Maintenance:
    """Maintains one table, in the thread that writes rows to it.

    Replaced data files and old log entries are deleted when they are older than the table properties
    ``delta.deletedFileRetentionDuration`` and ``delta.logRetentionDuration``. Both are 15 minutes in a table created by
    :class:`SplitWatermarkTable`. A reader can use a version for that time. With several writers both must be longer
    than a commit takes, since otherwise a file is deleted before its commit.

    Args:
        checkpoint_every: The number of versions between checkpoints of the log.
        round_every: The number of versions between rounds, a multiple of ``checkpoint_every``.
        clock: Returns the milliseconds since the epoch.
    """

    def __init__(
        self,
        table: SplitWatermarkTable,
        *,
        checkpoint_every: int = CHECKPOINT_EVERY,
        round_every: int = ROUND_EVERY,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._table = table
        self._checkpoint_every = checkpoint_every
        self._round_every = round_every
        self._clock = clock
        self._failures: Counter[str] = Counter()

    def is_due(self, version: int) -> bool:
        """Returns whether the process that made ``version`` of the table has maintenance to do."""
        return version % self._checkpoint_every == 0

    def committed(self, version: int) -> None:
        """Runs the maintenance that is due after this process has committed ``version`` of the table. Never raises."""
        if version % self._round_every == 0:
            self.run()
        elif self.is_due(version):
            self._attempt(self._checkpoint_step())

    def run(self) -> bool:
        """Runs one round of all steps, and returns whether all of them succeeded."""
        return self._attempt(
            _Step("expiry of rows", self._expire_rows),
            _Step("compaction", self._compact),
            _Step("vacuum", self._vacuum),
            _Step("removal of unfinished files", self._remove_unfinished),
            self._checkpoint_step(),
            _Step("clean-up of the log", lambda: self._table.delta.cleanup_metadata()),
        )

    def _checkpoint_step(self) -> _Step:
        return _Step("checkpoint of the log", self._checkpoint)

    def _checkpoint(self) -> None:
        """Writes a checkpoint of the newest version: one of a table that was deleted would hide a new table."""
        self._table.reload()
        self._table.delta.create_checkpoint()
        if put_lost_checkpoint_aside(self._table.files(), self._table.delta.version()):
            raise TableNotFoundError("the table was deleted before the checkpoint was written")

    def _attempt(self, *steps: _Step) -> bool:
        """Runs each step. A step that fails is tried again in the next round, and the steps after it still run.

        The steps are independent: delta-rs deletes no log entry that the newest checkpoint does not cover.
        """
        reload = _Step("look at the newest version", self._table.reload)
        if not self._succeeds(reload):
            return False
        failed = [step for step in steps if not self._succeeds(step)]
        return not failed

    def _succeeds(self, step: _Step) -> bool:
        """Runs a step, and returns whether it succeeded. Its third failure in a row is logged as a warning."""
        try:
            with self._table.failing(f"failed in the {step.name}"):
                step.run()
        except AlignmentError as error:
            self._failures[step.name] += 1
            if self._failures[step.name] == _FAILURES_TO_WARN_OF:
                uri = self._table.uri
                log.warning(
                    "The split-watermark table at '%s' cannot be maintained and grows. %s", uri, error
                )
            return False
        del self._failures[step.name]
        return True

    def _expire_rows(self) -> None:
        properties = self._table.delta.metadata().configuration
        retention_ms = parse_duration(properties.get(ROW_RETENTION, ROW_RETENTION_DEFAULT), ROW_RETENTION)
        keep_from = self._clock() - retention_ms
        overdue = _utc(keep_from - retention_ms // 8)
        if any(file.oldest is not None and file.oldest < overdue for file in self._files()):
            limit = _utc(keep_from).isoformat()
            self._table.delta.delete(
                f"recorded_at < '{limit}'",
                post_commithook_properties=NO_HOOKS,
                commit_properties=self._table.commit_properties({}),
            )

    def _compact(self) -> None:
        """Merges small files into one.

        ``DeltaTable.optimize`` is not used: if two of these run at the same time, delta-rs (1.6) lets both replace the
        same files, which doubles the rows.
        """
        if self._table.delta.protocol().min_reader_version > 1:
            return  # With deletion vectors and similar features, a file also has rows that are deleted.
        small = _worth_merging(self._files())
        if len(small) < 2:
            return
        merged = self._merge(small)
        for _ in range(_ATTEMPTS):
            if self._replace(small, merged):
                return
            self._table.delta.update_incremental()
            if not {file.path for file in small} <= {file.path for file in self._files()}:
                return  # The round of another member was faster. The next vacuum removes the file of this round.
        raise CommitFailedError(
            f"Maintenance of the table gave up after {_ATTEMPTS} attempts, because each time another process had "
            "committed first. It tries again later."
        )

    def _merge(self, files: Sequence[_File]) -> AddAction:
        """Writes the rows of ``files`` into one file. Only some of the rows are in memory at a time."""
        store, path = self._table.files(), f"part-{uuid.uuid4()}.zstd.parquet"
        described: list[pa.Table] = []
        with (
            whole_file(store, path) as out,
            pq.ParquetWriter(out, self._schema, compression="zstd") as writer,
        ):
            for rows in _row_groups(store, files, self._schema):
                writer.write_table(rows)
                described.append(rows.select(["batch", "recorded_at"]))
        size, statistics = store.get_file_info(path).size, _statistics(pa.concat_tables(described))
        return AddAction(path, size, {}, now_ms(), data_change=False, stats=json.dumps(statistics))

    @property
    def _schema(self) -> pa.Schema:
        """The columns in the order in which the table has them, which another program may have changed."""
        return pa.schema([SCHEMA.field(column.name) for column in self._table.delta.schema().fields])

    def _replace(self, files: Sequence[_File], merged: AddAction) -> bool:
        """Commits the replacement only as the next version, so that no other process can have removed ``files``."""
        now = now_ms()
        removed = [RemoveAction(file.path, False, now, file.size, {}) for file in files]
        try:
            self._table.delta.create_write_transaction(
                [merged, *removed],
                "append",
                self._schema,
                commit_properties=self._table.commit_properties({}, retries=0),
                post_commithook_properties=NO_HOOKS,
            )
        except CommitFailedError:
            return False
        self._table.delta.update_incremental()
        return True

    def _vacuum(self) -> None:
        """Deletes files that the log removed, and data files of this table that the log does not have.

        Such files are left if a round fails early, or if a checkpoint of the log comes first; only a listing finds
        them. The full vacuum of delta-rs would delete every other file in the folder, too, for example the checkpoint
        of a query. Neither step deletes files younger than the retention, because others may be writing them.
        """
        delta, store = self._table.delta, self._table.files()
        properties = self._table.commit_properties({})
        delta.vacuum(
            dry_run=False, full=False, post_commithook_properties=NO_HOOKS, commit_properties=properties
        )
        for path in delta.vacuum(dry_run=True, full=True):
            if _OWN_FILE.fullmatch(path) and _has_own_schema(store, path):
                with suppress(FileNotFoundError):
                    store.delete_file(path)

    def _remove_unfinished(self) -> None:
        properties = self._table.delta.metadata().configuration
        retention_ms = parse_duration(properties.get(_FILE_RETENTION, "interval 7 days"), _FILE_RETENTION)
        remove_unfinished(self._table.files(), _utc(now_ms() - retention_ms))

    def _files(self) -> list[_File]:
        """Returns the active files, in the order in which they were written."""
        actions = pa.table(self._table.delta.get_add_actions(flatten=True)).to_pylist()
        files = [
            _File(
                action["path"],
                action["size_bytes"],
                action["modification_time"],
                action.get("min.recorded_at"),
            )
            for action in actions
        ]
        return sorted(files, key=lambda file: file.modified)


def _worth_merging(files: Sequence[_File]) -> list[_File]:
    """Returns the small files. A file that is larger than all smaller ones together is left for a later round.

    So a row is rewritten only a few times, as in a log-structured merge tree, and there are few files of each size.
    """
    chosen: list[_File] = []
    bytes_so_far = 0
    for file in sorted(files, key=lambda file: file.size):
        if file.size >= _TARGET_BYTES or (len(chosen) > 1 and file.size > bytes_so_far):
            break
        chosen.append(file)
        bytes_so_far += file.size
    return chosen


def _has_own_schema(store: FileSystem, path: str) -> bool:
    """Returns whether a file is a whole Parquet file with the columns of a split-watermark table."""
    try:
        with store.open_input_file(path) as data:
            return bool(sorted(pq.read_schema(data).names) == sorted(SCHEMA.names))
    except (OSError, pa.ArrowInvalid):
        return False


def _row_groups(store: FileSystem, files: Sequence[_File], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of the files in tables of about :data:`_GROUP_ROWS` rows; one table at least.

    Args:
        store: The file system of the table.
        files: The files, whose columns may have any order.
        schema: The columns of the tables.
    """
    waiting: list[pa.Table] = [pa.Table.from_batches([], schema)]
    for file in files:
        with store.open_input_file(file.path) as data:
            parquet = pq.ParquetFile(data, coerce_int96_timestamp_unit="us")
            for batch in row_batches(parquet, range(parquet.num_row_groups), _GROUP_ROWS):
                waiting.append(pa.Table.from_batches([batch]).select(schema.names).cast(schema))
                if sum(len(rows) for rows in waiting) >= _GROUP_ROWS:
                    yield pa.concat_tables(waiting)
                    waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _statistics(rows: pa.Table) -> dict[str, Any]:
    """Returns Delta's "Per-file Statistics" for the columns that expiry and readers filter by."""
    batch, recorded_at = (pc.min_max(rows[column]).as_py() for column in ("batch", "recorded_at"))
    at = {bound: recorded_at[bound].strftime("%Y-%m-%dT%H:%M:%S.%fZ") for bound in ("min", "max")}
    return {
        "numRecords": rows.num_rows,
        "minValues": {"batch": batch["min"], "recorded_at": at["min"]},
        "maxValues": {"batch": batch["max"], "recorded_at": at["max"]},
        "nullCount": {"batch": rows["batch"].null_count, "recorded_at": rows["recorded_at"].null_count},
    }


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz=timezone.utc)
