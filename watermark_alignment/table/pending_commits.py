"""A queue of commits that wait to be written to the split-watermark table. Its memory is bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

_COMPRESSION = pa.ipc.IpcWriteOptions(compression="zstd")


class PendingCommit(NamedTuple):
    """The rows of one batch, as columns or compressed, and the metadata of their commit."""

    batch: int
    data: pa.Table | pa.Buffer
    metadata: Mapping[str, str]

    @property
    def size(self) -> int:
        """The size of the rows in memory (bytes)."""
        return int(self.data.nbytes if isinstance(self.data, pa.Table) else self.data.size)

    @property
    def rows(self) -> pa.Table:
        return self.data if isinstance(self.data, pa.Table) else pa.ipc.open_stream(self.data).read_all()

    def compressed(self) -> PendingCommit:
        """Returns the same commit in about a sixth of the memory."""
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, self.data.schema, options=_COMPRESSION) as writer:
            writer.write_table(self.data)
        return self._replace(data=stream.getvalue())


class UnwrittenBatches(NamedTuple):
    """Batches in a row whose commits are not written: their number, the first and the last."""

    number: int = 0
    first: int = 0
    last: int = 0

    def and_(self, batch: int) -> UnwrittenBatches:
        return UnwrittenBatches(self.number + 1, self.first if self.number else batch, batch)

    def __str__(self) -> str:
        return f"{self.number} batches ({self.first} to {self.last})"


class PendingCommits:
    """A queue that keeps the newest commits.

    Args:
        capacity: The greatest number of commits.
        max_bytes: The greatest size of their rows (bytes). The newest commit is always kept.

    Attributes:
        dropped: The batches that were dropped since the last call of :meth:`take_dropped`.
    """

    def __init__(self, capacity: int, max_bytes: int) -> None:
        self.capacity = capacity
        self.max_bytes = max_bytes
        self._commits: deque[PendingCommit] = deque()
        self._bytes = 0
        self.dropped = UnwrittenBatches()

    def __len__(self) -> int:
        return len(self._commits)

    @property
    def first(self) -> PendingCommit | None:
        return self._commits[0] if self._commits else None

    def add(self, commit: PendingCommit) -> None:
        """Adds the newest commit. The oldest ones are dropped if the queue is too large."""
        self._commits.append(commit)
        self._bytes += commit.size
        while len(self) > self.capacity or (len(self) > 1 and self._bytes > self.max_bytes):
            self.dropped = self.dropped.and_(self._take_first().batch)

    def done(self, commit: PendingCommit) -> None:
        """Removes a commit that is written. It may have been dropped in the meantime."""
        if self.first is commit:
            self._take_first()

    def take_dropped(self) -> UnwrittenBatches:
        """Returns the batches that were dropped since the last call."""
        dropped, self.dropped = self.dropped, UnwrittenBatches()
        return dropped

    def lost(self) -> UnwrittenBatches:
        """Returns the batches that are not written.

        They are those that were dropped since the last call of :meth:`take_dropped`, and those still in the queue.
        """
        lost = self.dropped
        for commit in self._commits:
            lost = lost.and_(commit.batch)
        return lost

    def _take_first(self) -> PendingCommit:
        commit = self._commits.popleft()
        self._bytes -= commit.size
        return commit
