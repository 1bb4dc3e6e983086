"""What a source says of a micro-batch as a whole, in the commit that has the batch's rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields

KEY = "flip27.batch"
"""The name of the note in the commit's metadata."""


@dataclass(frozen=True, slots=True)
class BatchNote:
    """One batch of one source.

    Attributes:
        group: the group.
        source: id of the source in it.
        lineage: of its checkpoint, as in its offsets.
        batch: number of the batch.
        max_drift_ms: ``scan.watermark.alignment.max-drift``.
        unreported: of how many splits tasks have not reported all that was read, so that what was planned stands for
            what was seen.
        implausible: how many records of a split had an event time beyond ``scan.watermark.max-future`` in this batch,
            for the 100 splits that had the most.
        implausible_in_run: the same, since the query started.
        metrics: the counters of the source's readers and enumerator since the query started, by name; the 100 greatest.
    """

    group: str
    source: str
    lineage: str
    batch: int
    max_drift_ms: int
    unreported: int
    implausible: Mapping[str, int] = field(default_factory=dict)
    implausible_in_run: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)

    def to_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_text(text: str) -> BatchNote:
        """Fields that a later version may have added are left out.

        Raises:
            ValueError, TypeError: ``text`` is no note.
        """
        told = json.loads(text)
        note = BatchNote(**{f.name: told[f.name] for f in fields(BatchNote) if f.name in told})
        numbers, texts = (
            (note.batch, note.max_drift_ms, note.unreported),
            (note.group, note.source, note.lineage),
        )
        if not all(type(n) is int for n in numbers) or not all(type(t) is str for t in texts):
            raise ValueError(f"{note} has values of another type")
        for counts in (note.implausible, note.implausible_in_run, note.metrics):
            if not isinstance(counts, dict) or not all(type(n) is int for n in counts.values()):
                raise ValueError(f"{note} has values of another type")
        return note
