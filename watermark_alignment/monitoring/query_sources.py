"""The sources of a query: which of them are aligned with each other, and the reason why rows are dropped as late."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from watermark_alignment.formatting import name
from watermark_alignment.monitoring.findings import Finding
from watermark_alignment.monitoring.progress import SourceProgress, dropped_rows, name_of, other_sources

_BATCHES = 2
"""The number of batches after which a source that is not in the table must be in another table."""


class QuerySources:
    """The sources of one run of a query, batch by batch."""

    def __init__(self) -> None:
        self._query = self._id = ""
        self._dropped: tuple[int, int] | None = None
        self._aligned: dict[str, tuple[str, int]] = {}
        self._unaligned: dict[str, str] = {}

    def take_in(self, progress: Mapping[str, Any], sources: Sequence[SourceProgress]) -> None:
        """Records the progress of a batch.

        Args:
            progress: The progress.
            sources: The sources of this project in it.
        """
        self._query, self._id = name_of(progress), str(progress["id"])
        for source in sources:
            if source.is_aligned:
                _, batches = self._aligned.get(source.lineage, ("", 0))
                self._aligned[source.lineage] = source.source, batches + 1
                # The first batches of the source had no event times.
                self._unaligned.pop(source.lineage, None)
            elif source.moved and source.lineage not in self._aligned:
                self._unaligned[source.lineage] = source.source
        self._unaligned |= {other: other for other in other_sources(progress)}
        if self._dropped is None and (rows := dropped_rows(progress)):
            self._dropped = int(progress["batchId"]), rows

    def dropped(self, groups: Mapping[str, str]) -> Iterator[Finding]:
        """Yields the problem that rows were dropped as late, if they were.

        Args:
            groups: The group of each source in the table, by the lineage of the source.
        """
        if self._dropped is not None:
            batch, rows = self._dropped
            yield Finding(
                ("dropped", self._id),
                f"The watermark dropped {rows:,} rows of {self._query} as late, first in batch {batch:,}. "
                f"{self._remedy(groups)}",
            )

    def elsewhere(self, groups: Mapping[str, str], table: str, watched: Collection[str]) -> Iterator[Finding]:
        """Yields the problem that an aligned source is not in the table that is read.

        A source writes its entry into the table before it reads, so it must be there.

        Args:
            groups: The group of each source in the table, by the lineage of the source.
            table: The location of the table.
            watched: The lineages of the sources of all queries of the session. If one of these sources is in the table,
                a query without any source in the table is not reported: another listener may watch it.
        """
        for lineage, (source, batches) in self._aligned.items():
            if batches < _BATCHES or lineage in groups:
                continue
            if not groups.keys().isdisjoint(self._aligned):
                yield Finding(
                    ("elsewhere", self._id, lineage),
                    f"Source {name(source)} of {self._query} is not in the split-watermark table at '{table}', which "
                    "has another source of this query. So the two are not aligned with each other. Give them the same "
                    "scan.watermark.alignment.table.",
                )
            elif groups and groups.keys().isdisjoint(watched):
                yield Finding(
                    ("elsewhere", self._id),
                    f"Source {name(source)} of {self._query} is not in the split-watermark table at '{table}', so "
                    "this listener cannot see how it is aligned. Give StatusListener the table that the query has in "
                    "scan.watermark.alignment.table.",
                )

    def _remedy(self, groups: Mapping[str, str]) -> str:
        if not self._aligned:
            return (
                "Its splits are not aligned: set scan.watermark.alignment.group, with max-drift and table, and a delay "
                "of withWatermark that is longer than max-drift + max-out-of-orderness."
            )
        unaligned = [source for lineage, source in self._unaligned.items() if lineage not in groups]
        if unaligned:
            return (
                f"It has sources that are not aligned with the others: {', '.join(map(name, unaligned))}. A source "
                "that is ahead moves the watermark past the others. Align all sources, in one group, or do not "
                "union their rows before withWatermark."
            )
        found = {groups[lineage] for lineage in self._aligned if lineage in groups}
        if found and not groups.keys() >= self._aligned.keys():
            return (
                "Its sources are in several split-watermark tables, and so not aligned with each other: give them the "
                "same scan.watermark.alignment.table."
            )
        if len(found) > 1:
            return (
                f"Its sources are in several groups: {', '.join(sorted(map(name, found)))}. Groups are not aligned "
                "with each other: give all sources the same scan.watermark.alignment.group."
            )
        return (
            "A delay of withWatermark that is longer than max-drift + max-out-of-orderness keeps all rows of splits "
            "that count. If it is longer, a split was new or had been idle: raise scan.watermark.idle-timeout."
        )
