"""The specification of a source in a query; it is pickled and sent to the planning process and to tasks."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from flip27_stream.api import ReadLimits, Source, SplitEnumerator, WatermarkStrategy
from flip27_stream.errors import ForeignCheckpointError
from watermark_alignment.options import EVENT_TIME, AlignmentOptions

_EVENT_TIME = ", event time "

AnyEnumerator = SplitEnumerator[Any, Any]
"""An enumerator whose splits and checkpoint the adapter treats as opaque."""


@dataclass(frozen=True)
class Driver:
    """The address and the resources of the Spark driver, for the planning process, which has no session.

    Attributes:
        host: The host name at which executors reach the driver (``spark.driver.host``).
        bind_address: The address at which the driver listens (``spark.driver.bindAddress``).
        parallelism: The number of tasks that could run at the same time when the format was registered; 0 if it is
            not known.
        spool_root: The driver's folder for rows of tables that the session writes; empty without such a folder. See
            :mod:`watermark_alignment.table.catalog_spool`.
        session: The path of the socket at which the session answers questions; empty if it has none. See
            :mod:`flip27_stream.spark.session.session_server`.
    """

    host: str = "127.0.0.1"
    bind_address: str = "127.0.0.1"
    parallelism: int = 2
    spool_root: str = ""
    session: str = ""


class SourceFactory(Protocol):
    """Creates a source from the options of ``readStream``; a connector registers one as a format.

    It may have further attributes: ``timestamp_column``, the column of the times that the external system gave the
    records (default ``timestamp``); ``value_column``, the column of JSON documents that JSON pointers refer to
    (default ``value``); ``supported_options``, the options that error messages suggest, if some of ``option_names``
    are refused or have no effect.
    """

    @property
    def name(self) -> str:
        """The name of the format."""
        ...

    @property
    def option_names(self) -> Mapping[str, str]:
        """The canonical spelling of each option, by its lower-case name."""
        ...

    @property
    def option_prefixes(self) -> tuple[str, ...]:
        """The prefixes of further options of the source."""
        ...

    def check(self, options: Mapping[str, str]) -> None:
        """Checks the options, without a schema, before it is known whether they are for a stream or a batch read.

        Raises:
            OptionError: An option is wrong in both cases.
        """
        ...

    def schema(self, options: Mapping[str, str]) -> pa.Schema:
        """Returns the schema of the source if the user gives none.

        Raises:
            OptionError: An option is wrong, or these options need a schema from the user.
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
        """Returns the source that the options describe.

        Args:
            options: The options of the user, by lower-case name.
            strategy: How event time is found in its rows.
            bounded: Whether the source is for a batch read.
            schema: The schema of the query.
            inferred: Whether ``schema`` is the result of :meth:`schema`, and not given by the user.

        Raises:
            OptionError: An option or the schema is wrong.
        """
        ...


@dataclass(frozen=True)
class SourceSpec:
    """One source of one query.

    Attributes:
        source: The source.
        strategy: How event time is found in its rows.
        alignment: The options of alignment; ``None`` if it is off.
        driver: The address and the resources of the driver.
        definition: An id that is drawn once for each DataFrame; the two processes of a self-join share it.
    """

    source: Source[Any, Any]
    strategy: WatermarkStrategy
    alignment: AlignmentOptions | None
    driver: Driver
    definition: str = field(default_factory=lambda: secrets.token_hex(8), compare=False)

    @property
    def limits(self) -> ReadLimits:
        """The read limits of a micro-batch and of its tasks."""
        return self.source.read_limits

    @property
    def fingerprint(self) -> str:
        """A text that identifies the topics or paths that are read, and the event time."""
        return self._with_event_time(self.source.fingerprint)

    def goes_on_as(self, fingerprint: str, has_event_times: bool) -> str | None:
        """Returns the fingerprint with which a query goes on from a checkpoint; ``None`` if it reads something else.

        Args:
            fingerprint: The fingerprint of the source that began the checkpoint.
            has_event_times: Whether the checkpoint has event times. It has none if the query was not aligned so far.

        Raises:
            ForeignCheckpointError: The checkpoint has event times of another definition.
        """
        what, separator, spec = fingerprint.rpartition(_EVENT_TIME)
        what, began = (what, spec) if separator else (fingerprint, EVENT_TIME.default)
        if not self.source.accepts_checkpoint_of(what):
            return None
        if self.alignment is None or began == self._event_time:
            return fingerprint
        if has_event_times or self.source.keeps_event_times:
            raise ForeignCheckpointError(
                f"The checkpoint has event times of {began!r}, and this query takes them from {self._event_time!r} "
                f"(option '{EVENT_TIME.name}', and its unit). Set these options as they were, or use a new "
                "checkpointLocation."
            )
        return self._with_event_time(what)

    def _with_event_time(self, what: str) -> str:
        event_time = self._event_time
        return what if event_time == EVENT_TIME.default else f"{what}{_EVENT_TIME}{event_time}"

    @property
    def _event_time(self) -> str | None:
        if self.alignment is None:
            return EVENT_TIME.default
        unit = self.alignment.event_time_unit
        return self.alignment.event_time + (f" in {unit}" if unit not in (None, "ms") else "")
