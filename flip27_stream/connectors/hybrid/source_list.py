"""The sources of a hybrid source, and the active source, which is being read."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from flip27_stream.api import (
    Boundedness,
    JsonValue,
    RecordTimestampAssigner,
    Source,
    SplitEnumerator,
    TimestampAssigner,
)
from flip27_stream.api.contract import check_made
from flip27_stream.connectors.hybrid.schemas import Converter, check, conform, converted_schema
from flip27_stream.connectors.hybrid.seam.exact_seam import ExactSeam
from flip27_stream.connectors.hybrid.seam.overlap import Overlap
from flip27_stream.errors import Flip27Error, OptionError
from flip27_stream.wall_clock import now_ms

log = logging.getLogger(__name__)

AnySource = Source[Any, Any]


@dataclass(frozen=True)
class SourceSwitchContext:
    """The argument of a source's factory (Flink ``SourceSwitchContext``).

    A factory is called once at the switch, and again by each restart after it. After a restart only the end position is
    available, from the checkpoint. So the source that the factory makes must depend only on the end position.

    Attributes:
        previous_enumerator: The enumerator of the previous source, not yet closed; ``None`` after a restart.
        overlap_ms: The event time (ms) before the end of the previous source that is read again.
        known_end: The end position of the previous source.
        unknown: The reason why the end position is unknown; ``None`` if it is known.
    """

    previous_enumerator: SplitEnumerator[Any, Any] | None = None
    overlap_ms: int = 0
    known_end: JsonValue = None
    unknown: str | None = None

    @property
    def end_position(self) -> JsonValue:
        """The end position of the previous source.

        If the previous enumerator is a :class:`SupportsEndPosition`, it is the result of ``end_position()``; otherwise
        the greatest event time (ms) that was read. A source without records, or with earlier ones, leaves the end
        position as it was before it. It is ``None`` if no source had records.

        Raises:
            OptionError: The event times of the previous source were not checked.
        """
        if self.unknown is not None:
            raise OptionError(self.unknown)
        return self.known_end

    @property
    def start_time_ms(self) -> int:
        """The first event time (ms) that the next source must read.

        It is one millisecond after the greatest event time of the previous sources, minus the overlap. It is 0 if they
        had no records.

        Raises:
            OptionError: The end position is unknown, or is not an event time.
        """
        end = self.end_position
        if end is None:
            return 0
        if type(end) is not int:
            raise OptionError(
                f"The end position of the previous source is {end!r}, which is not an event time in milliseconds. "
                "Compute the start of the next source from end_position."
            )
        return max(end + 1 - self.overlap_ms, 0)


Factory = Callable[[SourceSwitchContext], AnySource]


@dataclass(frozen=True)
class SourceListEntry:
    """A source of the hybrid source, as it was given to the builder.

    Attributes:
        made: The source, or the source that its factory made in the trial call; ``None`` if the trial failed.
        factory: Makes the source at the switch; ``None`` if the source itself was given.
        boundedness: The boundedness of the source.
        converter: Converts its rows into rows of the hybrid source.
        event_time: The timestamp assigner for its own rows, if it differs from the query's.
        overlap: The overlap of the source with the previous source.
        seam: The exact seam at which the source begins; ``None`` if the source itself chooses its start.
        needs_end: Whether the factory asked for the end position of the previous source in the trial call.
    """

    made: AnySource | None
    factory: Factory | None
    boundedness: Boundedness
    converter: Converter | None = None
    event_time: TimestampAssigner | None = None
    overlap: Overlap | None = None
    seam: ExactSeam | None = None
    needs_end: bool = False

    @property
    def name(self) -> str:
        """The name in errors and in the fingerprint. A source that a factory makes may differ after each switch."""
        if self.factory is None and self.made is not None:
            return self.made.fingerprint
        return "a source made at the switch"

    def accepts_checkpoint_of(self, name: str) -> bool:
        """Returns whether this source can continue from a checkpoint of the source with that name.

        A source that a factory makes is compared when it is made.
        """
        fixed = self.made if self.factory is None else None
        return name == self.name or (fixed is not None and fixed.accepts_checkpoint_of(name))

    @property
    def is_bounded(self) -> bool:
        return self.boundedness is Boundedness.BOUNDED


class ActiveSource:
    """A source of the list, made from the end position of the previous source.

    When it is pickled, the source is pickled and the factory is not.

    Attributes:
        seam: The exact seam of the next source, which needs the positions of this source's rows; ``None`` if the next
            source has no exact seam.
    """

    def __init__(
        self,
        index: int,
        entry: SourceListEntry,
        schema: pa.Schema,
        is_last: bool,
        context: SourceSwitchContext,
        seam: ExactSeam | None = None,
    ) -> None:
        self.index = index
        self.end_position = None if context.unknown else context.known_end
        self.is_last = is_last
        self.converter = entry.converter
        self.event_time = entry.event_time
        self.seam = seam
        self._schema = schema
        self._entry: SourceListEntry | None = entry
        self._context: SourceSwitchContext | None = context

    @property
    def name(self) -> str:
        return f"Source {self.index} of the hybrid source"

    @cached_property
    def source(self) -> AnySource:
        """The source. It is made at the first access.

        Raises:
            OptionError: The factory fails, or makes a source that does not fit the hybrid source.
        """
        assert self._entry is not None
        assert self._context is not None
        if self._entry.factory is not None:
            source = self._make(self._entry.factory, self._context)
        else:
            assert self._entry.made is not None
            source = self._entry.made
        self._context = None  # So the previous enumerator can be garbage-collected.
        if self._entry.is_bounded and source.boundedness is not Boundedness.BOUNDED:
            raise OptionError(
                f"{self.name} was declared bounded, but its factory made {source.fingerprint}, which is not. "
                "Leave the declared boundedness out, or return a bounded source."
            )
        if not self.is_last:
            check_ends_in_streams(source, self.name)
        check(converted_schema(source.schema, self.converter), self._schema, self.name)
        return source

    def rows(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Converts records of the source into rows of the hybrid source.

        Raises:
            RecordFormatError: The rows do not have the columns of the hybrid source.
        """
        converted = records if self.converter is None else self.converter(records)
        return conform(converted, self._schema, self.name)

    def assigner(self, of_query: TimestampAssigner) -> TimestampAssigner:
        """Returns the timestamp assigner for the source's own rows."""
        if self.event_time is not None:
            return self.event_time
        if self.converter is None:
            return of_query
        if isinstance(of_query, RecordTimestampAssigner):  # So the source can use its own index.
            otherwise = of_query.otherwise
            return RecordTimestampAssigner(otherwise and ConvertedAssigner(self, otherwise))
        return ConvertedAssigner(self, of_query)

    def _make(self, factory: Factory, context: SourceSwitchContext) -> AnySource:
        try:
            made = factory(context)
        except Flip27Error:
            raise
        except Exception as error:
            since = "" if context.previous_enumerator else ", and no previous enumerator (this is a restart)"
            raise OptionError(
                f"The factory of source {self.index} of the hybrid source failed with {type(error).__name__}: {error}. "
                f"It got the end position {context.known_end!r}{since}."
            ) from error
        check_made(f"The factory of source {self.index} of the hybrid source", made, Source)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"source": self.source, "_entry": None, "_context": None}


@dataclass(frozen=True)
class ConvertedAssigner(TimestampAssigner):
    """A timestamp assigner that converts the source's rows first."""

    active: ActiveSource
    of_query: TimestampAssigner

    def extract_timestamps(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> pa.Int64Array:
        rows = self.active.rows(records)
        if rows.num_rows != records.num_rows:
            raise OptionError(
                f"The converter of source {self.active.index} of the hybrid source leaves out rows, so event times "
                "cannot be found through it. Give add_source the column of event time, event_time='...'."
            )
        return self.of_query.event_times(rows, timestamps)


class SourceList:
    """The sources of a hybrid source, in order."""

    def __init__(self, entries: Sequence[SourceListEntry], schema: pa.Schema) -> None:
        self.entries = tuple(entries)
        self.schema = schema
        self._active: dict[tuple[int, str], ActiveSource] = {}

    def active(
        self,
        index: int,
        end_position: JsonValue = None,
        previous: SplitEnumerator[Any, Any] | None = None,
        unknown: str | None = None,
    ) -> ActiveSource:
        """Returns the source that is made from an end position; always the same object in a process."""
        key = index, json.dumps(end_position, sort_keys=True)
        if key not in self._active:
            entry = self.entries[index]
            overlap_ms = entry.overlap.ms if entry.overlap else 0
            context = SourceSwitchContext(previous, overlap_ms, end_position, unknown)
            is_last = index + 1 == len(self.entries)
            seam = None if is_last else self.entries[index + 1].seam
            self._active[key] = ActiveSource(index, entry, self.schema, is_last, context, seam)
        return self._active[key]

    def needs_end_of(self, index: int) -> bool:
        """Returns whether the factory of the next source asks for the end of the source at ``index``."""
        return index + 1 < len(self.entries) and self.entries[index + 1].needs_end

    def overlap_after(self, index: int) -> Overlap | None:
        """Returns the overlap of the next source with the source at ``index``, or ``None``."""
        return self.entries[index + 1].overlap if index + 1 < len(self.entries) else None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_active": {}}


def check_ends_in_streams(source: AnySource, name: str) -> None:
    """Checks that another source can be read after ``source``.

    Raises:
        OptionError: The source does not end in a stream.
    """
    if not source.ends_in_streams:
        raise OptionError(
            f"{name} ({source.fingerprint}) ends only in a batch read, also with bounded=True, so no source can be "
            "read after it. Make it the last source, or leave out the sources after it."
        )


class _TrialContext(SourceSwitchContext):
    """A context with a made-up end position that notes whether the factory asks for it."""

    is_asked = False

    @property
    def end_position(self) -> JsonValue:
        object.__setattr__(self, "is_asked", True)
        return super().end_position


def tried(factory: Factory, overlap: Overlap | None, index: int) -> tuple[AnySource | None, bool]:
    """Returns the source that a factory makes on trial, to find out its columns and limits.

    The end position of the trial is 0. If the factory fails, it is called once more, with the present time (ms).

    Returns:
        The source, and whether the factory asked for the end position. The source is ``None`` if the factory fails
        twice, with a warning. Its columns are then compared at the switch.

    Raises:
        ContractError: The factory returns something else.
    """
    failed: Exception | None = None
    for end in (0, now_ms()):
        context = _TrialContext(overlap_ms=overlap.ms if overlap else 0, known_end=end)
        try:
            made = factory(context)
        except Exception as error:  # noqa: BLE001 - the trial is the user's code with a made-up position
            failed = error
            continue
        check_made("The factory of a hybrid source's next source", made, Source)
        return made, context.is_asked
    log.warning(
        "The factory of source %d of the hybrid source failed when it was called on trial with end positions 0 and the "
        "present time, so its columns are compared at the switch, and its limits have no effect: %r",
        index,
        failed,
    )
    return None, context.is_asked
