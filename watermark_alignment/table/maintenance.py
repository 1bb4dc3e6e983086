"""The maintenance of the split-watermark table: expiry of rows, compaction, vacuum, checkpoint and clean-up of the log.

The duration of a commit grows with the number of commits since the last checkpoint, and with the number of active
files. Maintenance bounds both. It is due at certain versions of the table, like Delta's own ``checkpointInterval``. The
process that made such a version does the maintenance, whatever the number and the lifetime of the members.

Two members can run a round at the same time. Then one of the rounds fails early, and nothing is lost. Of the steps only
the expiry of rows conflicts with an append at the same time: then it fails, and the next round tries again.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction
from pyarrow.fs import FileSelector, FileSystem

from flip27_stream.errors import AlignmentError
from flip27_stream.options.durations import parse_duration
from watermark_alignment.table.data_files import (
    NO_HOOKS,
    DataFile,
    active_files,
    columns_of_table,
    replace_files,
)
from watermark_alignment.table.merged_file import write_merged_file
from watermark_alignment.table.split_rows import SCHEMA
from watermark_alignment.table.split_watermark_table import NO_TABLE, SplitWatermarkTable
from watermark_alignment.table.storage.lost_commits import put_lost_checkpoint_aside
from watermark_alignment.table.storage.table_files import commit_times, exists
from watermark_alignment.table.storage.unfinished_files import remove_unfinished
from watermark_alignment.table_location import TABLE_OPTION

log = logging.getLogger(__name__)

ROW_RETENTION = "flip27.rowRetentionDuration"
"""The table property with the time for which rows are kept after they were recorded.

They are kept up to an eighth longer, so that not every round must rewrite old data.
"""
ROW_RETENTION_DEFAULT = "interval 7 days"

CHECKPOINT_EVERY = 20
ROUND_EVERY = 5 * CHECKPOINT_EVERY

_FORGOTTEN_MS = 24 * 3_600_000
"""The age (ms) from which a file that no commit has is not needed: the process that wrote it is not about to commit."""
_TARGET_BYTES = 16 << 20
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


class Maintenance:
    """Maintains one table, in the thread that writes rows to it.

    Replaced data files and old log entries are deleted when they are older than the table properties
    ``delta.deletedFileRetentionDuration`` and ``delta.logRetentionDuration``. Both are 15 minutes in a table created by
    :class:`SplitWatermarkTable`. A reader can use a version for that time. Files that no commit has are deleted when
    the store has had them for a day: a process may be about to commit them.

    Args:
        table: The table.
        checkpoint_every: The number of versions between checkpoints of the log.
        round_every: The number of versions between rounds, a multiple of ``checkpoint_every``.
        clock: Returns the time (ms since the epoch) by which rows expire; by default that of the store.
    """

    def __init__(
        self,
        table: SplitWatermarkTable,
        *,
        checkpoint_every: int = CHECKPOINT_EVERY,
        round_every: int = ROUND_EVERY,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._table = table
        self._checkpoint_every = checkpoint_every
        self._round_every = round_every
        self._clock = clock or self._store_now
        self._failures: Counter[str] = Counter()
        self._leaves_files = False

    def is_due(self, version: int) -> bool:
        """Returns whether the process that made ``version`` of the table has maintenance to do."""
        return version % self._checkpoint_every == 0

    def committed(self, version: int) -> None:
        """Runs the maintenance that is due after this process has committed ``version`` of the table. Never raises."""
        if version % self._round_every == 0:
            self.run()
        elif self.is_due(version):
            self._attempt(self._removal_step(), self._checkpoint_step())

    def run(self) -> bool:
        """Runs one round of all steps, and returns whether all of them succeeded."""
        return self._attempt(
            _Step("look for missing files", self._forget_missing),
            _Step("expiry of rows", self._expire_rows),
            _Step("compaction", self._compact),
            self._removal_step(),
            _Step("vacuum", self._vacuum),
            _Step("removal of unfinished files", self._remove_unfinished),
            self._checkpoint_step(),
            _Step("clean-up of the log", lambda: self._table.delta.cleanup_metadata()),
        )

    def _removal_step(self) -> _Step:
        return _Step("removal of replaced files", self._remove_replaced)

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

    def _forget_missing(self) -> None:
        """Removes data files that do not exist from the table, which could not be read and not be merged otherwise.

        delta-rs (1.6) cannot remove a file with a deletion vector.
        """
        if self._has_vectors():
            return
        store = self._table.files()
        listed = {info.path for info in store.get_file_info(FileSelector(""))}
        missing = [
            file
            for file in active_files(self._table.delta)
            if file.path not in listed and _OWN_FILE.fullmatch(file.path) and not exists(store, [file.path])
        ]
        self._store_now()  # Fails if the whole folder is gone, as after the end of a mount.
        if missing and self._replace(missing, []):
            log.warning("%s", _lost(self._table.uri, missing))

    def _expire_rows(self) -> None:
        properties = self._table.delta.metadata().configuration
        retention_ms = parse_duration(properties.get(ROW_RETENTION, ROW_RETENTION_DEFAULT), ROW_RETENTION)
        keep_from = self._clock() - retention_ms
        overdue = _utc(keep_from - retention_ms // 8)
        if any(file.oldest is not None and file.oldest < overdue for file in active_files(self._table.delta)):
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
        if self._has_vectors():
            if not self._leaves_files:
                log.warning(
                    "The files of the split-watermark table at '%s' are not merged, and their number grows, because "
                    "the table has deletion vectors or another feature for which readers need a newer protocol. Merge "
                    "them with OPTIMIZE, or give the path of a new table (option %s).",
                    self._table.uri,
                    TABLE_OPTION,
                )
            self._leaves_files = True
            return
        small = _worth_merging(active_files(self._table.delta))
        if len(small) > 1:
            # If the round of another member was faster, the vacuum of a later round removes the file of this round.
            merged = write_merged_file(self._table.files(), small, columns_of_table(self._table.delta))
            self._replace(small, [merged])

    def _has_vectors(self) -> bool:
        """Returns whether files can also have rows that are deleted, by deletion vectors or a similar feature."""
        return bool(self._table.delta.protocol().min_reader_version > 1)

    def _replace(self, removed: Sequence[DataFile], added: Sequence[AddAction]) -> bool:
        properties = self._table.commit_properties({}, retries=0)
        return replace_files(self._table.delta, self._table.files(), removed, added, properties)

    def _remove_replaced(self) -> None:
        """Deletes files that the log removed longer ago than the retention. A checkpoint forgets these files."""
        self._delete(self._table.delta.vacuum(dry_run=True, full=False))

    def _vacuum(self) -> None:
        """Deletes data files of this table that the log does not have, as those of rounds that failed early.

        The full vacuum of delta-rs would delete every other file in the folder, too, for example the checkpoint of a
        query, and files that another process has written and is about to commit.
        """
        store = self._table.files()
        before = _utc(self._store_now() - _FORGOTTEN_MS)
        old = {
            info.path for info in store.get_file_info(FileSelector("")) if info.mtime and info.mtime < before
        }
        forgotten = old.intersection(self._table.delta.vacuum(dry_run=True, full=True))
        self._delete(p for p in forgotten if _OWN_FILE.fullmatch(p) and _has_own_schema(store, p))

    def _delete(self, paths: Iterable[str]) -> None:
        store = self._table.files()
        for path in paths:
            with suppress(FileNotFoundError):  # The round of another member was faster.
                store.delete_file(path)

    def _remove_unfinished(self) -> None:
        remove_unfinished(self._table.files(), _utc(self._store_now() - _FORGOTTEN_MS))

    def _store_now(self) -> int:
        """Returns the time (ms) of the newest commit by the clock of the store, which has the times of all files.

        It is not later than the store's present time. The clock of this machine may differ.
        """
        times = commit_times(self._table.files())
        if not times:
            raise TableNotFoundError(NO_TABLE)
        return int(times[max(times)] * 1000)


def _worth_merging(files: Sequence[DataFile]) -> list[DataFile]:
    """Returns the small files. A file that is larger than all smaller ones together is left for a later round.

    So a row is rewritten only a few times, as in a log-structured merge tree, and there are few files of each size.
    """
    chosen: list[DataFile] = []
    bytes_so_far = 0
    for file in sorted(files, key=lambda file: file.size):
        if file.size >= _TARGET_BYTES or (len(chosen) > 1 and file.size > bytes_so_far):
            break
        chosen.append(file)
        bytes_so_far += file.size
    return chosen


def _lost(uri: str, files: Sequence[DataFile]) -> str:
    """Returns a warning about data files that are missing."""
    rows = sum(file.rows or 0 for file in files)
    times = sorted(time for file in files for time in (file.oldest, file.newest) if time is not None)
    when = (
        f", recorded from {times[0]:%Y-%m-%d %H:%M:%S} to {times[-1]:%Y-%m-%d %H:%M:%S} UTC," if times else ""
    )
    return (
        f"Data files of the split-watermark table at '{uri}' do not exist: {len(files)}, the first is "
        f"'{files[0].path}'. They were removed from the table, so that it can be read again. {rows:,} rows{when} are "
        "lost: status and pictures do not show them. Alignment and the rows of queries are not affected. Find out "
        "which program deletes files in the folder of the table."
    )


def _has_own_schema(store: FileSystem, path: str) -> bool:
    """Returns whether a file is a whole Parquet file with the columns of a split-watermark table."""
    try:
        with store.open_input_file(path) as data:
            return bool(sorted(pq.read_schema(data).names) == sorted(SCHEMA.names))
    except (OSError, pa.ArrowInvalid):
        return False


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, tz=timezone.utc)
