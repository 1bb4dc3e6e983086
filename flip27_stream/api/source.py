"""The source: a factory of enumerators and readers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic

import pyarrow as pa

from flip27_stream.api.enumerator import CheckpointT, SplitEnumerator, SplitEnumeratorContext
from flip27_stream.api.limits import ReadLimits
from flip27_stream.api.reader import SourceReader, SourceReaderContext
from flip27_stream.api.serializer import SimpleVersionedSerializer
from flip27_stream.api.split import SplitT


class Boundedness(Enum):
    """Whether a source ends (Flink ``Boundedness``)."""

    BOUNDED = "BOUNDED"
    CONTINUOUS_UNBOUNDED = "CONTINUOUS_UNBOUNDED"


@dataclass(frozen=True)
class AdoptedOffset(Generic[SplitT, CheckpointT]):
    """An offset that another Spark source stored in a checkpoint, converted to a state of this project's source.

    Attributes:
        splits: Each split and the next position to read of it.
        checkpoint: The state of the enumerator.
        first_begins: The positions at which the first batch of the checkpoint begins, by split id; only known ones.
        later_begin: The position at which a split begins that only later batches of the checkpoint have.
    """

    splits: Sequence[tuple[SplitT, int]]
    checkpoint: CheckpointT
    first_begins: Mapping[str, int]
    later_begin: int = 0


class Source(ABC, Generic[SplitT, CheckpointT]):
    """A factory of enumerators and readers (FLIP-27 ``Source``). It is picklable and has configuration only."""

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Whether the source ends."""

    @property
    def ends_in_streams(self) -> bool:
        """Whether the source, if it is bounded, also ends in a stream, by ranges whose ends are ``final``.

        By default it does. A bounded source that ends only where a batch read or an ``AvailableNow`` run ends returns
        false. A hybrid source refuses to read another source after it, because the switch would never come.
        """
        return True

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of the record batches that readers emit, in Spark's types (timestamps in microseconds, UTC)."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A text that identifies what the source reads. The checkpoint stores it; see :meth:`accepts_checkpoint_of`."""

    @property
    def reads(self) -> str:
        """A short name of the topics, path or other things that are read; by default the fingerprint."""
        return self.fingerprint

    def accepts_checkpoint_of(self, fingerprint: str) -> bool:
        """Returns whether a query of this source can go on from a checkpoint that a source with ``fingerprint`` began.

        By default it can if both fingerprints are equal. Override it to accept changed options. The enumerator may
        then get splits that its options do not name.
        """
        return fingerprint == self.fingerprint

    @property
    def keeps_event_times(self) -> bool:
        """Whether states of the enumerator may have event times; by default they have none.

        A query with such a source cannot go on from a checkpoint that was begun under another event time.
        """
        return False

    def adopt_offset(self, document: Mapping[str, Any]) -> AdoptedOffset[SplitT, CheckpointT] | None:
        """Returns the state of this source at an offset that another Spark source stored.

        By default it returns ``None``: this source cannot go on from the offset. The result must depend only on the
        document and the options, without I/O, because a replay of a batch calls the method again.

        Args:
            document: The offset, as the offset log of the checkpoint has it.
        """
        return None

    @property
    def read_limits(self) -> ReadLimits:
        """The read limits of a micro-batch and of each of its tasks; by default there are no limits."""
        return ReadLimits()

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader[SplitT]:
        """Returns a new reader. Called in a Spark task."""

    @abstractmethod
    def create_enumerator(
        self, context: SplitEnumeratorContext[SplitT]
    ) -> SplitEnumerator[SplitT, CheckpointT]:
        """Returns a new enumerator for a new query."""

    @abstractmethod
    def restore_enumerator(
        self, context: SplitEnumeratorContext[SplitT], checkpoint: CheckpointT
    ) -> SplitEnumerator[SplitT, CheckpointT]:
        """Returns an enumerator that goes on from ``checkpoint``; the context has the assigned splits."""

    def splits_for_readers(self, splits: Sequence[SplitT], checkpoint: CheckpointT) -> Sequence[SplitT]:
        """Returns the splits that readers get, in the order of ``splits``; by default the same splits.

        Override it to add what readers need of the enumerator's state. The result must depend on the arguments only,
        so that a replay of the batch reads the same.

        Args:
            splits: The splits of a micro-batch.
            checkpoint: The enumerator's state in the offset that ends the micro-batch.
        """
        return splits

    @property
    def planning_modules(self) -> Sequence[str]:
        """The modules that :meth:`create_enumerator` and :meth:`restore_enumerator` import; empty by default.

        The planning process imports them in a thread before its first plan, so that this plan is faster.
        """
        return ()

    @property
    @abstractmethod
    def split_serializer(self) -> SimpleVersionedSerializer[SplitT]:
        """The serializer of the splits in the offset."""

    @property
    @abstractmethod
    def enumerator_checkpoint_serializer(self) -> SimpleVersionedSerializer[CheckpointT]:
        """The serializer of the enumerator's state in the offset."""
