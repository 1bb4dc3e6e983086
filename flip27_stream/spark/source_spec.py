"""What is fixed about a source when a query is defined; travels, pickled, to the planning process and to tasks."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from flip27_stream.api import ReadLimits, Source, SplitEnumerator, WatermarkStrategy
from offsets import Offset, SplitState
from watermark_alignment.options import EVENT_TIME, AlignmentOptions

_EVENT_TIME = ", event time "

# The adapter treats splits and checkpoints as opaque.
AnyEnumerator = SplitEnumerator[Any, Any]
AnyOffset = Offset[Any, Any]
AnyState = SplitState[Any]


@dataclass(frozen=True)
class Driver:
    """What the planning process has to know of the Spark driver and cannot ask for: it has no session.

    Attributes:
        host: where executors reach the driver (``spark.driver.host``).
        bind_address: where the driver listens (``spark.driver.bindAddress``).
        parallelism: the number of tasks that run at the same time.
    """

    host: str = "127.0.0.1"
    bind_address: str = "127.0.0.1"
    parallelism: int = 2


class SourceFactory(Protocol):
    """Makes a source from the options of ``readStream``; how a connector registers as a format."""

    @property
    def name(self) -> str:
        """What to give to ``format``."""
        ...

    @property
    def option_names(self) -> Mapping[str, str]:
        """Canonical spelling of each option, by its lower-case name."""
        ...

    @property
    def option_prefixes(self) -> tuple[str, ...]:
        """Options that begin so belong to the source, too."""
        ...

    def check(self, options: Mapping[str, str]) -> None:
        """Look at the options before it is known what they are for, and before there is a schema.

        Raises:
            OptionError: an option is wrong, be it for a stream or for a batch read.
        """
        ...

    def schema(self, options: Mapping[str, str]) -> pa.Schema:
        """Columns of the source that :meth:`create` makes where the user names none.

        Raises:
            OptionError: these options need a schema of the user, or one is wrong.
        """
        ...

    def create(
        self,
        options: Mapping[str, str],
        strategy: WatermarkStrategy,
        *,
        bounded: bool,
        schema: pa.Schema | None = None,
        inferred: bool = False,
    ) -> Source[Any, Any]:
        """The source these options describe.

        Args:
            options: as the user gave them.
            strategy: how event time is found in its rows.
            bounded: for a batch read.
            schema: the columns of the query.
            inferred: whether ``schema`` is what :meth:`schema` returned, and not what the user named.

        Raises:
            OptionError: an option is wrong, or the schema.
        """
        ...


@dataclass(frozen=True)
class SourceSpec:
    """One source of one query.

    Attributes:
        source: the source.
        strategy: how event time is found in it.
        alignment: options of alignment, ``None`` where it is off.
        driver: facts about the driver.
        definition: drawn once for each DataFrame; two processes of a self-join share it.
    """

    source: Source[Any, Any]
    strategy: WatermarkStrategy
    alignment: AlignmentOptions | None
    driver: Driver
    definition: str = field(default_factory=lambda: secrets.token_hex(8), compare=False)

    @property
    def limits(self) -> ReadLimits:
        """How much a micro-batch and each of its tasks may read."""
        return self.source.read_limits

    @property
    def fingerprint(self) -> str:
        """What is read, and by which event time."""
        spec = self._event_time
        what = self.source.fingerprint
        return what if spec == EVENT_TIME.default else f"{what}{_EVENT_TIME}{spec}"

    def accepts_checkpoint_of(self, fingerprint: str) -> bool:
        """Whether this job can go on from a checkpoint that a job with ``fingerprint`` began.

        Only under the same event time, for the times stored there mean nothing under another definition.
        """
        what, separator, spec = fingerprint.rpartition(_EVENT_TIME)
        began = (what, spec) if separator else (fingerprint, EVENT_TIME.default)
        return began[1] == self._event_time and self.source.accepts_checkpoint_of(began[0])

    @property
    def _event_time(self) -> str | None:
        if self.alignment is None:
            return EVENT_TIME.default
        unit = self.alignment.event_time_unit
        return self.alignment.event_time + (f" in {unit}" if unit not in (None, "ms") else "")
