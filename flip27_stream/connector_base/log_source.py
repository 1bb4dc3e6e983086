"""The base class of sources that read partitioned logs."""

from __future__ import annotations

from typing import Generic

import pyarrow as pa

from flip27_stream.api import Boundedness, ReadLimits, Source, SplitEnumerator, SplitEnumeratorContext
from flip27_stream.api.enumerator import CheckpointT
from flip27_stream.api.split import SplitT


class LogSource(Source[SplitT, CheckpointT], Generic[SplitT, CheckpointT]):
    """A source of partitioned logs, whose schema, limits and boundedness are known from its options.

    Args:
        schema: The columns of its rows.
        limits: The read limits of a micro-batch.
        initial_state: The state with which the enumerator of a new query begins.
        bounded: Whether the source ends.
    """

    def __init__(
        self, schema: pa.Schema, limits: ReadLimits, initial_state: CheckpointT, *, bounded: bool
    ) -> None:
        self._schema = schema
        self._limits = limits
        self._initial_state = initial_state
        self._bounded = bounded

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def read_limits(self) -> ReadLimits:
        return self._limits

    def create_enumerator(
        self, context: SplitEnumeratorContext[SplitT]
    ) -> SplitEnumerator[SplitT, CheckpointT]:
        return self.restore_enumerator(context, self._initial_state)
