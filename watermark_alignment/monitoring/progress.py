"""The sources of this project in the progress of a streaming query: one line for each batch, and its problems.

The input is the JSON of Spark's ``StreamingQueryProgress``. A source of this project has an end offset with the marker
of :mod:`offsets`. The rest of an offset is read by its layout, without the source's serializers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flip27_stream.time_text import time_text
from offsets import FORMAT_VERSION, MARKER
from watermark_alignment.formatting import duration
from watermark_alignment.table.offsets_behind import OffsetsBehind


@dataclass(frozen=True)
class SourceProgress:
    """A source of this project in one batch.

    Attributes:
        source: The fingerprint of the source: a description of the topics or paths that it reads.
        lineage: The lineage of the checkpoint.
        splits: The number of its splits.
        moved: The number of splits that were read.
        read_max: The greatest event time read (ms) of each split, if it is known.
        batch: The source's own number of the batch.
        behind: The distance of the splits to the ends of their logs after the batch; ``None`` if it is not reported.
    """

    source: str
    lineage: str
    splits: int
    moved: int
    read_max: Sequence[int]
    batch: int
    behind: OffsetsBehind

    @property
    def is_aligned(self) -> bool:
        """Whether the source is aligned. Only aligned sources read event times."""
        return bool(self.read_max)

    def __str__(self) -> str:
        text = f"{self.source}: {self.moved:,} of {self.splits:,} splits read"
        if self.behind.splits:
            text += f", {self.behind}"
        if not self.read_max:
            return text
        least, greatest = min(self.read_max), max(self.read_max)
        return f"{text}, now between {time_text(least)} and {time_text(greatest)}"


def our_sources(progress: Mapping[str, Any]) -> list[SourceProgress]:
    """Returns the sources of this project among those of a query."""
    parts = [
        [_document(source.get(offset)) for offset in ("startOffset", "endOffset", "latestOffset")]
        for source in progress.get("sources", ())
    ]
    return [_source(start, end, latest) for start, end, latest in parts if _is_ours(end)]


def other_sources(progress: Mapping[str, Any]) -> list[str]:
    """Returns Spark's descriptions of the sources of a query that are not of this project."""
    sources = progress.get("sources", ())
    return [str(s.get("description", "?")) for s in sources if not _is_ours(_document(s.get("endOffset")))]


def line(progress: Mapping[str, Any], sources: Sequence[SourceProgress]) -> str:
    """Returns one line about the batch."""
    took = progress.get("durationMs", {}).get("triggerExecution", 0)
    parts = [f"{name_of(progress)}, batch {progress['batchId']}: {progress.get('numInputRows', 0):,} rows"]
    parts[0] += f" in {duration(int(took))}"
    parts += map(str, sources)
    if (watermark := progress.get("eventTime", {}).get("watermark")) is not None:
        parts.append(f"Spark's watermark {watermark}")
    return "; ".join(parts)


def dropped_rows(progress: Mapping[str, Any]) -> int:
    """Returns the number of rows that stateful operators dropped as late.

    Aggregations count them after partial aggregation.
    """
    operators = progress.get("stateOperators", ())
    return sum(int(operator.get("numRowsDroppedByWatermark", 0)) for operator in operators)


def name_of(progress: Mapping[str, Any]) -> str:
    """Returns the name of a query for messages: ``query 'clicks'``, or ``query`` and its id if it has no name."""
    return f"query '{progress['name']}'" if progress.get("name") else f"query {progress['id']}"


def _document(offset: Any) -> Mapping[str, Any]:
    """Returns an offset as a mapping. Spark writes it as JSON within the JSON, or as text."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {}
    return offset if isinstance(offset, Mapping) else {}


def _is_ours(document: Mapping[str, Any]) -> bool:
    return document.get(MARKER) in range(1, FORMAT_VERSION + 1) and isinstance(
        document.get("splits"), Mapping
    )


def _positions(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yields positions by split id. ``{"clicks": {"0": 7}}`` has the position of ``clicks-0``."""
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield from _positions(value, f"{prefix}{name}-")
        elif type(value) is int:
            yield prefix + name, value


def _source(start: Mapping[str, Any], end: Mapping[str, Any], latest: Mapping[str, Any]) -> SourceProgress:
    """Reads a source's offsets.

    The entry of a split is a list: position, greatest event time read, and further fields; see :mod:`offsets.codec`.
    """
    before = start.get("splits", {}) if _is_ours(start) else {}
    splits = {split: [*entry, None, None, None][:4] for split, entry in end["splits"].items()}
    begin = {name: e[3] if isinstance(e[3], int) else before.get(name, e)[0] for name, e in splits.items()}
    return SourceProgress(
        source=str(end["source"]),
        lineage=str(end["lineage"]),
        splits=len(splits),
        moved=sum(entry[0] > begin[split] for split, entry in splits.items()),
        read_max=[entry[1] for entry in splits.values() if entry[1] is not None],
        batch=int(end["batch"]),
        behind=OffsetsBehind.of([p - splits[name][0] for name, p in _positions(latest) if name in splits]),
    )
