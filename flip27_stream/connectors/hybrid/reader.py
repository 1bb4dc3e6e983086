"""The reader of a hybrid source in a task."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from itertools import groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.api import (
    InputStatus,
    MetricGroup,
    ReaderOutput,
    SourceEvent,
    SourceOutput,
    SourceReader,
    SourceReaderContext,
)
from flip27_stream.api.planned_range import RangeKey
from flip27_stream.connectors.hybrid.child_context import tagged, untagged
from flip27_stream.connectors.hybrid.seam.exact_seam import SourceRangesRead, merge
from flip27_stream.connectors.hybrid.seam.overlap import Intervals, not_among
from flip27_stream.connectors.hybrid.source_list import ActiveSource
from flip27_stream.connectors.hybrid.split import HybridSourceSplit, split_id
from flip27_stream.errors import ConnectorError
from flip27_stream.reader.split_outputs import SplitOutputs


class HybridSourceReader(SourceReader[HybridSourceSplit]):
    """A reader that delegates to a reader of each source of the assigned splits (Flink ``HybridSourceReader``).

    A micro-batch reads one source: the next source begins in the batch after the last batch of the previous one. A
    batch query reads all sources in one batch. A task then reads one source after the other.
    """

    def __init__(self, context: SourceReaderContext) -> None:
        self._context = context
        self._readers: dict[int, SourceReader[Any]] = {}
        self._outputs: dict[int, HybridReaderOutput] = {}
        self._splits: dict[str, HybridSourceSplit] = {}
        self._ranges: dict[int, list[RangeKey]] = {}

    def add_splits(self, splits: Sequence[HybridSourceSplit]) -> None:
        self._splits.update({split.split_id: split for split in splits})
        for index, group in groupby(sorted(splits, key=attrgetter("index")), attrgetter("index")):
            mine = list(group)
            if index not in self._readers:
                context = ChildReaderContext(self._context, index)
                self._readers[index] = mine[0].active.source.create_reader(context)
                self._readers[index].start()
            self._readers[index].add_splits([split.split for split in mine])
            cut = [RangeKey(split.serialized.id, *split.span) for split in mine if split.span is not None]
            self._ranges.setdefault(index, []).extend(cut)

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        while self._readers:
            index, reader = next(iter(self._readers.items()))
            status = reader.poll_next(self._output(index, output))
            if status is not InputStatus.END_OF_INPUT:
                return status
            self._tell_what_was_read(index)
            self._readers.pop(index).close()
        return InputStatus.END_OF_INPUT

    def snapshot_state(self) -> Sequence[HybridSourceSplit]:
        left = [
            (index, split) for index, reader in self._readers.items() for split in reader.snapshot_state()
        ]
        known = [(self._splits[split_id(index, split.split_id)], split) for index, split in left]
        return [HybridSourceSplit.of(whole.active, split, whole.known) for whole, split in known]

    def is_available(self) -> Future[None]:
        return next((reader.is_available() for reader in self._readers.values()), super().is_available())

    def notify_no_more_splits(self) -> None:
        for reader in self._readers.values():
            reader.notify_no_more_splits()

    def handle_source_events(self, event: SourceEvent) -> None:
        """Passes an event on to the reader of its source. Events for other sources are ignored."""
        for index, reader in self._readers.items():
            if (own := untagged(event, index)) is not None:
                reader.handle_source_events(own)

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()

    def _tell_what_was_read(self, index: int) -> None:
        """Reports to the enumerator that all ranges of a source were read, if an exact seam follows the source."""
        active = next(split.active for split in self._splits.values() if split.index == index)
        if active.seam is not None:
            ends = self._outputs[index].ends if index in self._outputs else {}
            event = SourceRangesRead(index, self._ranges[index], ends).event()
            if event is not None:
                self._context.send_source_event_to_coordinator(event)

    def _output(self, index: int, output: ReaderOutput) -> HybridReaderOutput:
        found = self._outputs.get(index)
        if found is None or found.of is not output:
            mine = {s.serialized.id: s for s in self._splits.values() if s.index == index}
            active = next(iter(mine.values())).active
            found = HybridReaderOutput(output, active, {name: split.known for name, split in mine.items()})
            self._outputs[index] = found
        return found


class HybridReaderOutput(SplitOutputs):
    """An output that converts the records of one source's reader into rows of the hybrid source."""

    def __init__(self, output: ReaderOutput, active: ActiveSource, known: dict[str, Intervals]) -> None:
        self.of = output
        self._active = active
        self._known = known
        self.ends: dict[str, int] = {}
        """The greatest emitted position plus one, by split of the next source (see :class:`ExactSeam`)."""

    @property
    def split_ids(self) -> Collection[str]:
        return self._known

    def create_output_for_split(self, split_id_: str) -> SourceOutput:
        inner = self.of.create_output_for_split(split_id(self._active.index, split_id_))
        return HybridSplitOutput(inner, self._active, split_id_, self._known.get(split_id_, ()), self.ends)

    def release_output_for_split(self, split_id_: str) -> None:
        self.of.release_output_for_split(split_id(self._active.index, split_id_))


class HybridSplitOutput(SourceOutput):
    """The output of one split.

    It drops rows that the previous source had, and converts the others to rows of the hybrid source. Their positions
    in the next source are recorded in ``ends``.
    """

    def __init__(
        self, output: SourceOutput, active: ActiveSource, name: str, known: Intervals, ends: dict[str, int]
    ) -> None:
        self._output = output
        self._active = active
        self._name = name
        self._known = known
        self._ends = ends

    def collect(
        self,
        records: pa.RecordBatch,
        timestamps: pa.Int64Array | None = None,
        positions: pa.Int64Array | None = None,
    ) -> None:
        if self._known:
            records, timestamps, positions = self._unknown(records, timestamps, positions)
        rows = self._active.rows(records)
        if self._active.seam is not None:
            merge(self._ends, self._active.seam.ends(rows))
        if rows.num_rows != records.num_rows:
            timestamps = positions = None  # The converter dropped rows, and it is unknown which.
        self._output.collect(rows, timestamps, positions)

    def _unknown(
        self, records: pa.RecordBatch, timestamps: pa.Int64Array | None, positions: pa.Int64Array | None
    ) -> tuple[pa.RecordBatch, pa.Int64Array | None, pa.Int64Array | None]:
        if positions is None:
            raise ConnectorError(
                f"The reader of {self._active.source.fingerprint} does not emit the positions of its rows in split "
                f"{self._name}, so rows of the overlap cannot be recognised. Leave the overlap out."
            )
        wanted = not_among(positions, self._known)
        if wanted is None:
            return records, timestamps, positions
        times = None if timestamps is None else pc.filter(timestamps, wanted)
        return records.filter(wanted), times, pc.filter(positions, wanted)


class ChildReaderContext(SourceReaderContext):
    """The context of the reader of one source."""

    def __init__(self, context: SourceReaderContext, index: int) -> None:
        self._context = context
        self._index = index

    def metric_group(self) -> MetricGroup:
        return self._context.metric_group()

    def index_of_subtask(self) -> int:
        return self._context.index_of_subtask()

    def send_split_request(self) -> None:
        self._context.send_split_request()

    def send_source_event_to_coordinator(self, event: SourceEvent) -> None:
        self._context.send_source_event_to_coordinator(tagged(event, self._index))
