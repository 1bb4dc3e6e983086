"""The hybrid source and its builder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from flip27_stream.api import (
    Boundedness,
    ReadLimits,
    Source,
    SourceReaderContext,
    SplitEnumeratorContext,
    TimestampAssigner,
)
from flip27_stream.connectors.hybrid.planning.enumerator import HybridSourceSplitEnumerator
from flip27_stream.connectors.hybrid.planning.enumerator_state import (
    HybridEnumeratorState,
    HybridEnumeratorStateSerializer,
)
from flip27_stream.connectors.hybrid.reader import HybridSourceReader
from flip27_stream.connectors.hybrid.schemas import Converter, check, common_schema, converted_schema
from flip27_stream.connectors.hybrid.seam.exact_seam import ExactSeam
from flip27_stream.connectors.hybrid.seam.overlap import Overlap
from flip27_stream.connectors.hybrid.source_list import (
    AnySource,
    Factory,
    SourceList,
    SourceListEntry,
    check_ends_in_streams,
    tried,
)
from flip27_stream.connectors.hybrid.split import HybridSourceSplit, HybridSourceSplitSerializer
from flip27_stream.errors import OptionError, shortened
from flip27_stream.event_time.assigners import timestamp_assigner

_HYBRID = "Hybrid: "
_THEN = ", then "


class HybridSource(Source[HybridSourceSplit, HybridEnumeratorState]):
    """A source that reads one source to its end, then the next one (FLIP-150, Flink ``HybridSource``)::

        history = FileSource({"path": "/delta/clicks", "files.format": "delta"}, bounded=True)

        def live(switch):
            return KafkaSource({"subscribe": "clicks", "startingTimestamp": str(switch.start_time_ms), ...})

        source = HybridSource.builder(history).add_source(live).build()
        spark.dataSource.register(flip27_stream.data_source(source, name="clicks"))

    Build it with :meth:`builder`.
    """

    enumerator_checkpoint_serializer = HybridEnumeratorStateSerializer()

    def __init__(self, sources: SourceList, limits: ReadLimits | None = None) -> None:
        self._sources = sources
        self._limits = limits

    @staticmethod
    def builder(
        first: AnySource,
        *,
        converter: Converter | None = None,
        event_time: str | None = None,
        limits: ReadLimits | None = None,
    ) -> HybridSourceBuilder:
        """Returns a builder whose first source is ``first``. The hybrid source has the columns of this source.

        Args:
            first: The source to read first.
            converter: See :meth:`HybridSourceBuilder.add_source`.
            event_time: See :meth:`HybridSourceBuilder.add_source`.
            limits: The limits of each micro-batch, for all sources; see :attr:`read_limits`. Files and bytes are
                limited by each source itself.

        Raises:
            OptionError: ``limits`` has a limit of files or bytes.
        """
        return HybridSourceBuilder(first, converter, event_time, limits)

    @property
    def boundedness(self) -> Boundedness:
        """The boundedness of the last source."""
        return self._sources.entries[-1].boundedness

    @property
    def ends_in_streams(self) -> bool:
        """Whether the last source does; assumed of a source that is only made at the switch."""
        last = self._sources.entries[-1].made
        return last is None or last.ends_in_streams

    @property
    def schema(self) -> pa.Schema:
        return self._sources.schema

    @property
    def fingerprint(self) -> str:
        return _HYBRID + _THEN.join(entry.name for entry in self._sources.entries)

    @property
    def reads(self) -> str:
        return self.fingerprint.removeprefix(_HYBRID)

    def accepts_checkpoint_of(self, fingerprint: str) -> bool:
        """Returns whether a query can go on from a checkpoint that a source with ``fingerprint`` began.

        It must have the same number of sources, and each source must accept the checkpoint of the one at its index.
        """
        if fingerprint == self.fingerprint:
            return True
        names, entries = fingerprint.removeprefix(_HYBRID).split(_THEN), self._sources.entries
        is_alike = fingerprint.startswith(_HYBRID) and len(names) == len(entries)
        return is_alike and all(map(SourceListEntry.accepts_checkpoint_of, entries, names))

    @property
    def keeps_event_times(self) -> bool:
        """Whether states may have event times, which they have, because the end of a source is an event time."""
        return True

    @property
    def read_limits(self) -> ReadLimits:
        """The limits given to the builder, or by default the least of the limits of all known sources.

        The least is taken for rows, files and bytes. The other limits are those of the last known source. Limits of
        files and bytes are always those of the sources: without them in Spark's limit, each plan would be one of
        ``Trigger.Once``, which has no limits. Spark reads the limits once, when the query starts.
        """
        known = [entry.made.read_limits for entry in self._sources.entries if entry.made is not None]
        last = known[-1]
        of_sources = ReadLimits(
            max_rows=_least(limits.max_rows for limits in known),
            min_rows=last.min_rows,
            max_trigger_delay_ms=last.max_trigger_delay_ms,
            min_tasks=last.min_tasks,
            max_rows_per_task=last.max_rows_per_task,
            max_files=_least(limits.max_files for limits in known),
            max_bytes=_least(limits.max_bytes for limits in known),
            rows_worth_a_task=min(limits.rows_worth_a_task for limits in known),
        )
        if self._limits is None:
            return of_sources
        return replace(self._limits, max_files=of_sources.max_files, max_bytes=of_sources.max_bytes)

    def create_reader(self, context: SourceReaderContext) -> HybridSourceReader:
        return HybridSourceReader(context)

    def create_enumerator(
        self, context: SplitEnumeratorContext[HybridSourceSplit]
    ) -> HybridSourceSplitEnumerator:
        return HybridSourceSplitEnumerator(context, self._sources)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[HybridSourceSplit], checkpoint: HybridEnumeratorState
    ) -> HybridSourceSplitEnumerator:
        return HybridSourceSplitEnumerator(context, self._sources, checkpoint)

    def splits_for_readers(
        self, splits: Sequence[HybridSourceSplit], checkpoint: HybridEnumeratorState
    ) -> Sequence[HybridSourceSplit]:
        """Returns the splits as the active source prepares them for readers.

        Splits of earlier sources are unchanged. Splits whose log was replaced have no rows that another source has.
        """
        current = [split for split in splits if split.index == checkpoint.index]
        if not current:
            return splits
        source = current[0].active.source
        state = source.enumerator_checkpoint_serializer.deserialize(checkpoint.version, checkpoint.data)
        made = iter(source.splits_for_readers([split.split for split in current], state))
        replaced = checkpoint.replaced
        return [
            replace(split, cut=next(made), known=() if split.serialized.id in replaced else split.known)
            if split.index == checkpoint.index
            else split
            for split in splits
        ]

    @property
    def planning_modules(self) -> Sequence[str]:
        """The modules of the first source, with which a new query begins."""
        first = self._sources.entries[0].made
        return first.planning_modules if first is not None else ()

    @property
    def split_serializer(self) -> HybridSourceSplitSerializer:
        return HybridSourceSplitSerializer(self._sources)


class HybridSourceBuilder:
    """Collects the sources of a :class:`HybridSource` (Flink ``HybridSourceBuilder``)."""

    def __init__(
        self,
        first: AnySource,
        converter: Converter | None,
        event_time: str | None,
        limits: ReadLimits | None,
    ) -> None:
        _check_object(first, 0)
        if limits is not None and (limits.max_files, limits.max_bytes) != (None, None):
            raise OptionError(
                "The limits of a hybrid source have max_files or max_bytes, which would have no effect. Give these "
                "limits to its sources."
            )
        self._schema = common_schema(converted_schema(first.schema, converter))
        self._limits = limits
        self._entries = [
            SourceListEntry(first, None, first.boundedness, converter, _assigner(event_time, first))
        ]

    def add_source(
        self,
        source: AnySource | Factory,
        *,
        boundedness: Boundedness | None = None,
        converter: Converter | None = None,
        event_time: str | None = None,
        overlap: Overlap | None = None,
        seam: ExactSeam | None = None,
    ) -> HybridSourceBuilder:
        """Adds a source that is read after the sources before it.

        Args:
            source: The source, or a factory that makes the source at the switch from a :class:`SourceSwitchContext`.
                The factory is also called here with the end position 0, to find out columns and limits; if that fails,
                with the present time. If both fail, the columns are checked at the switch, and there is a warning.
            boundedness: Whether the source that the factory makes is bounded. By default the boundedness of the source
                that is made here on trial; unbounded if the trial failed.
            converter: Converts record batches of the source to the schema of the hybrid source. It runs in the reader.
                It may drop rows, and must not change their order.
            event_time: The column of event time in the source's own rows, if it differs from the query's
                (``scan.watermark.event-time``). In a query without alignment, every source except the last one needs
                it, because the end position is its greatest event time.
            overlap: The overlap of the source with the previous source; ``None`` without an overlap.
            seam: The exact seam, at which each split of the source begins after its rows in the previous source. It
                excludes ``overlap``.

        Raises:
            OptionError: An earlier source is not bounded, or ends only in batch reads, or columns do not fit. The error
                names them.
        """
        index = len(self._entries)
        _check_is_bounded(self._entries[-1], index - 1)
        _check_object(source, index, may_be_function=True)
        factory = None if isinstance(source, Source) else source
        made, needs_end = (source, False) if isinstance(source, Source) else tried(source, overlap, index)
        if made is not None:
            boundedness = _agreed(boundedness, made, index)
            schema = converted_schema(made.schema, converter)
            check(schema, self._schema, f"Source {index} of the hybrid source ({made.fingerprint})")
        _check_border(overlap, seam, index, self._schema)
        found = boundedness or Boundedness.CONTINUOUS_UNBOUNDED
        assigner = _assigner(event_time, made)
        entry = SourceListEntry(made, factory, found, converter, assigner, overlap, seam, needs_end)
        self._entries.append(entry)
        return self

    def build(self) -> HybridSource:
        """Returns the hybrid source of all sources that were added."""
        return HybridSource(SourceList(self._entries, self._schema), self._limits)


def _check_is_bounded(entry: SourceListEntry, index: int) -> None:
    if not entry.is_bounded:
        raise OptionError(
            f"Source {index} of the hybrid source, {entry.name}, is not bounded: all sources "
            "except the final one must be. Make it bounded, with bounded=True or an option for its end."
        )
    if entry.made is not None:
        check_ends_in_streams(entry.made, f"Source {index} of the hybrid source")


def _check_object(source: object, index: int, *, may_be_function: bool = False) -> None:
    is_function = may_be_function and callable(source) and not isinstance(source, type)
    if not isinstance(source, Source) and not is_function:
        raise OptionError(
            f"Source {index} of the hybrid source is {shortened(repr(source))}. Give an object of a Source"
            + (", or a function that makes one." if may_be_function else ".")
        )


def _check_border(overlap: Overlap | None, seam: ExactSeam | None, index: int, schema: pa.Schema) -> None:
    if overlap is not None and seam is not None:
        raise OptionError(
            f"Source {index} of the hybrid source has an overlap and an exact seam. Leave one of them out: at an "
            "exact seam no row is read twice."
        )
    if overlap is not None:
        overlap.check(schema)
    if seam is not None:
        seam.check(schema)


def _agreed(declared: Boundedness | None, made: AnySource, index: int) -> Boundedness:
    if declared is Boundedness.BOUNDED and made.boundedness is not Boundedness.BOUNDED:
        raise OptionError(
            f"Source {index} of the hybrid source was declared bounded, but {made.fingerprint} is not. "
            "Leave the declared boundedness out, or add a bounded source."
        )
    return declared or made.boundedness


def _assigner(event_time: str | None, source: AnySource | None) -> TimestampAssigner | None:
    if event_time is None:
        return None
    if source is None:
        raise OptionError(
            f"event_time '{event_time}' cannot be checked: the columns of this source are unknown, because its "
            "factory raised an error when it was called on trial with end positions 0 and the present time. Let the "
            "factory return a source for one of them."
        )
    return timestamp_assigner(event_time, source.schema, "event_time")


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)
