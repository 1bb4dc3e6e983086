"""What is fixed about a source when a query is defined; travels, pickled, to the planning process and to tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from flip27_stream.api import Source, SplitEnumerator, WatermarkStrategy
from offsets import Offset, SplitState
from watermark_alignment.options import EVENT_TIME, AlignmentOptions

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

    @property
    def schema(self) -> pa.Schema:
        """Columns of the sources made."""
        ...

    def create(
        self, options: Mapping[str, str], strategy: WatermarkStrategy, *, bounded: bool
    ) -> Source[Any, Any]:
        """The source these options describe; ``bounded`` for a batch read.

        Raises:
            OptionError: an option is wrong.
        """
        ...

    def read_limit(self, options: Mapping[str, str]) -> int | None:
        """Rows per micro-batch, ``None`` for no limit."""
        ...


@dataclass(frozen=True)
class Job:
    """One source of one query.

    Attributes:
        source: the source.
        strategy: how event time is found in it.
        alignment: options of alignment, ``None`` where it is off.
        read_limit: rows per micro-batch, ``None`` for no limit.
        driver: facts about the driver.
    """

    source: Source[Any, Any]
    strategy: WatermarkStrategy
    alignment: AlignmentOptions | None
    read_limit: int | None
    driver: Driver

    @property
    def fingerprint(self) -> str:
        """What is read, and by which event time: stored times mean nothing under another definition."""
        spec = self.alignment.event_time if self.alignment is not None else EVENT_TIME.default
        return (
            self.source.fingerprint
            if spec == EVENT_TIME.default
            else f"{self.source.fingerprint}, event time {spec}"
        )
