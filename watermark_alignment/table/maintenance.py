"""What keeps the split-watermark table small: expiry of rows, compaction, vacuum, checkpoint, clean-up.

A commit costs time in proportion to the commits since the last checkpoint and to the active files. Both are bounded
by the rhythm of maintenance, which is that of the table's versions, as Delta's own ``checkpointInterval`` is: whoever
makes the version at which something is due does it, however many members there are and however short their lives.
Rounds of two members may meet all the same: one is then cut short, nothing is lost. Appends do not conflict with one.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from flip27_stream.errors import AlignmentError
from flip27_stream.options.durations import parse_duration
from watermark_alignment.table.split_watermark_table import NO_HOOKS, SCHEMA, SplitWatermarkTable

_LOG = logging.getLogger(__name__)

ROW_RETENTION = "flip27.rowRetentionDuration"
"""Property of the table: how long rows are kept after they were recorded. Up to an eighth longer, so that not every
round has to write old data anew."""
ROW_RETENTION_DEFAULT = "interval 7 days"

CHECKPOINT_EVERY = 20
ROUND_EVERY = 5 * CHECKPOINT_EVERY

_TARGET_BYTES = 16 << 20
_ATTEMPTS = 10
_FAILURES_TO_WARN_OF = 3


def _now() -> int:
    return time.time_ns() // 1_000_000


class _Step(NamedTuple):
    """One step of maintenance.

    Attributes:
        name: what it does, in words.
        run: does it.
    """

    name: str
    run: Callable[[], object]


class _File(NamedTuple):
    path: str
    size: int
    modified: int
    oldest: datetime | None


class Maintenance:
    """Looks after one table, in the thread that writes rows to it.

    Replaced data files and old log entries are deleted once they are older than the table properties
    ``delta.deletedFileRetentionDuration`` and ``delta.logRetentionDuration``, 15 minutes each in a table made by
    :class:`SplitWatermarkTable`: so long a reader may hold on to a version. With several writers neither may
    be shorter than a commit takes, else a file is deleted before its commit.

    Args:
        checkpoint_every: versions from one checkpoint of the log to the next.
        round_every: versions from one round to the next, a multiple of the former.
        clock: milliseconds since the epoch.
    """

    def __init__(
        self,
        table: SplitWatermarkTable,
        *,
        checkpoint_every: int = CHECKPOINT_EVERY,
        round_every: int = ROUND_EVERY,
        clock: Callable[[], int] = _now,
    ) -> None:
        self._table = table
        self._checkpoint_every = checkpoint_every
        self._round_every = round_every
        self._clock = clock
        self._failures: Counter[str] = Counter()

    def is_due(self, version: int) -> bool:
        """Whether there is something to do for the process that made ``version`` of the table."""
        return version % self._checkpoint_every == 0

    def committed(self, version: int) -> None:
        """To be told of each commit of this process, by the version that it made; does what is due. Never raises."""
        if version % self._round_every == 0:
            self.run()
        elif self.is_due(version):
            self._attempt(self._checkpoint_step())

    def run(self) -> bool:
        """One round of all steps; whether all of them succeeded."""
        return self._attempt(
            _Step("expiry of rows", self._expire_rows),
            _Step("compaction", self._compact),
            _Step("vacuum", self._vacuum),
            self._checkpoint_step(),
            _Step("clean-up of the log", lambda: self._table.delta.cleanup_metadata()),
        )

    def _checkpoint_step(self) -> _Step:
        return _Step("checkpoint of the log", lambda: self._table.delta.create_checkpoint())

    def _attempt(self, *steps: _Step) -> bool:
        """Run each step; one that fails is tried again in the next round, and the steps after it run all the same.

        They are independent: delta-rs deletes no entry of the log that the newest checkpoint does not cover.
        """
        reload = _Step("look at the newest version", self._table.reload)
        if not self._succeeds(reload):
            return False
        failed = [step for step in steps if not self._succeeds(step)]
        return not failed

    def _succeeds(self, step: _Step) -> bool:
        """Whether the step did not fail; its third failure in a row is warned of."""
        try:
            with self._table.failing(f"failed in the {step.name}"):
                step.run()
        except AlignmentError as error:
            self._failures[step.name] += 1
            if self._failures[step.name] == _FAILURES_TO_WARN_OF:
                uri = self._table.uri
                _LOG.warning(
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
            self._table.delta.delete(f"recorded_at < '{limit}'", post_commithook_properties=NO_HOOKS)

    def _compact(self) -> None:
        """Merge small files into one.

        Not by ``DeltaTable.optimize``: when two of these meet, delta-rs (1.6) lets both replace the same
        files, which doubles the rows.
        """
        if self._table.delta.protocol().min_reader_version > 1:
            return  # deletion vectors and the like: a file is more than its rows
        small = _worth_merging(self._files())
        if len(small) < 2:
            return
        merged = self._merge(small)
        for _ in range(_ATTEMPTS):
            if self._replace(small, merged):
                return
            self._table.delta.update_incremental()
            if not {file.path for file in small} <= {file.path for file in self._files()}:
                return  # another member's round was faster; what we wrote goes with the next vacuum
        raise CommitFailedError(f"no compaction in {_ATTEMPTS} attempts, so many others commit")

    def _merge(self, files: Sequence[_File]) -> AddAction:
        store = self._table.files()
        rows = pa.concat_tables(
            pq.read_table(file.path, filesystem=store, coerce_int96_timestamp_unit="us").cast(SCHEMA)
            for file in files
        )
        path = f"part-{uuid.uuid4()}.zstd.parquet"
        with store.open_output_stream(path) as out:
            pq.write_table(rows, out, compression="zstd")
        size = store.get_file_info(path).size
        return AddAction(path, size, {}, _now(), data_change=False, stats=json.dumps(_statistics(rows)))

    def _replace(self, files: Sequence[_File], merged: AddAction) -> bool:
        """Commit as the very next version of the table, or not at all: so nobody else removed the files."""
        now = _now()
        removed = [RemoveAction(file.path, False, now, file.size, {}) for file in files]
        try:
            self._table.delta.create_write_transaction(
                [merged, *removed],
                "append",
                SCHEMA,
                commit_properties=CommitProperties(max_commit_retries=0),
                post_commithook_properties=NO_HOOKS,
            )
        except CommitFailedError:
            return False
        self._table.delta.update_incremental()
        return True

    def _vacuum(self) -> None:
        # Full, since only a listing finds files that the log has forgotten (a round was cut short, or a
        # checkpoint came first). What others are writing just now is younger than the retention.
        self._table.delta.vacuum(dry_run=False, full=True, post_commithook_properties=NO_HOOKS)

    def _files(self) -> list[_File]:
        """The active files, in the order they were written."""
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
    """The small ones, without any that is larger than all smaller ones together: it waits for its like.

    So a row is written anew a few times only, as in a log-structured merge tree, and there are few files of each size.
    """
    chosen: list[_File] = []
    bytes_so_far = 0
    for file in sorted(files, key=lambda file: file.size):
        if file.size >= _TARGET_BYTES or (len(chosen) > 1 and file.size > bytes_so_far):
            break
        chosen.append(file)
        bytes_so_far += file.size
    return chosen


def _statistics(rows: pa.Table) -> dict[str, Any]:
    """As the protocol's "Per-file Statistics", for the columns that expiry and readers look for."""
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
