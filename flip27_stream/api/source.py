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
    """An offset that another Spark source stored in a checkpoint, as a state of a source of ours.

    Attributes:
        splits: each split and the next position to read of it.
        checkpoint: the state of the enumerator.
        first_begins: where the first batch of the checkpoint begins, by split id, as far as it is known.
        later_begin: the position at which a split begins that a later batch is the first to have.
    """

    splits: Sequence[tuple[SplitT, int]]
    checkpoint: CheckpointT
    first_begins: Mapping[str, int]
    later_begin: int = 0


class Source(ABC, Generic[SplitT, CheckpointT]):
    """A factory of enumerators and readers (FLIP-27 ``Source``). Picklable; holds configuration only."""

    @property
    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Whether the source ends."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Columns of the record batches its readers emit; Spark's types (timestamps in us, time zone UTC)."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Says in words what is read; a checkpoint keeps it. See :meth:`accepts_checkpoint_of`."""

    @property
    def reads(self) -> str:
        """What is read, in as few words as people need to recognise it: a topic, a path. By default the fingerprint."""
        return self.fingerprint

    def accepts_checkpoint_of(self, fingerprint: str) -> bool:
        """Whether a query of this source can go on from a checkpoint that a source with ``fingerprint`` began.

        By default it can if this source has the same. A source overrides it to accept changes of its options. Its
        enumerator then gets splits that its options may not name any more.
        """
        return fingerprint == self.fingerprint

    def adopt_offset(self, document: Mapping[str, Any]) -> AdoptedOffset[SplitT, CheckpointT] | None:
        """The state of this source at an offset that another Spark source stored, ``None`` where it is not of a kind
        that this source can go on from (the default).

        It depends on the document and the options only, and needs no I/O: a replay of a batch asks for it again.

        Args:
            document: the offset, as the offset log of the checkpoint has it.
        """
        return None

    @property
    def read_limits(self) -> ReadLimits:
        """How much a micro-batch and each of its tasks may read; by default all there is."""
        return ReadLimits()

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader[SplitT]:
        """A new reader, in a Spark task."""

    @abstractmethod
    def create_enumerator(
        self, context: SplitEnumeratorContext[SplitT]
    ) -> SplitEnumerator[SplitT, CheckpointT]:
        """A new enumerator, for a query that starts."""

    @abstractmethod
    def restore_enumerator(
        self, context: SplitEnumeratorContext[SplitT], checkpoint: CheckpointT
    ) -> SplitEnumerator[SplitT, CheckpointT]:
        """An enumerator that goes on from ``checkpoint``; the splits assigned before are known to the coordinator."""

    def splits_for_readers(self, splits: Sequence[SplitT], checkpoint: CheckpointT) -> Sequence[SplitT]:
        """``splits`` as readers get them, in the same order; by default as they are.

        Here splits take from the state of the enumerator, as the offset that ends the micro-batch has it, what readers
        must know of it. It depends on the arguments only: a replay of the batch reads the same.
        """
        return splits

    @property
    @abstractmethod
    def split_serializer(self) -> SimpleVersionedSerializer[SplitT]:
        """Writes splits into the offset."""

    @property
    @abstractmethod
    def enumerator_checkpoint_serializer(self) -> SimpleVersionedSerializer[CheckpointT]:
        """Writes the enumerator's state into the offset."""
