"""The options of watermark alignment, with the names of FLIP-296: meanings, defaults and parsing.

The module does no I/O.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flip27_stream.errors import OptionError
from flip27_stream.event_time.units import UNITS
from flip27_stream.options.durations import parse_duration
from flip27_stream.options.kinds import BOOLEAN, DURATION, POSITIVE_DURATION, TEXT, time_unit, words
from flip27_stream.options.option import Kind, Option
from watermark_alignment.table_location import catalog_name, parse_location

DERIVED_ID: Final = "[0-9a-f]{8}-[0-9a-f]{16}"
"""The form of the id of a source without ``scan.source.id``; see :meth:`AlignmentOptions.name_of_source`."""
_SHORTEST_TIMEOUT_S: Final = 1
"""The shortest source timeout (s). A member that cannot renew its entry four times per timeout stops counting."""


def _parse_timeout(text: str, option: str) -> int:
    timeout = parse_duration(text, option)
    if timeout < _SHORTEST_TIMEOUT_S * 1000:
        raise OptionError.of(
            option,
            text,
            f"It must be at least {_SHORTEST_TIMEOUT_S} s, and many times the duration of a commit to the table: a "
            "member renews its entry in the table four times within the timeout.",
        )
    return timeout


_LOCATION: Final = Kind("path, URI or name", parse_location)
_TIMEOUT: Final = Kind(f"duration >= {_SHORTEST_TIMEOUT_S} s", _parse_timeout)

GROUP: Final = Option(
    "scan.watermark.alignment.group",
    TEXT,
    None,
    "Turns alignment on. Name of the group, as in the split-watermark table.",
    default_words="alignment is off",
)
MAX_DRIFT: Final = Option(
    "scan.watermark.alignment.max-drift",
    DURATION,
    None,
    "How far in event time a split may be read ahead of the slowest one that counts. Required with a group.",
)
TABLE: Final = Option(
    "scan.watermark.alignment.table",
    _LOCATION,
    None,
    "Path or URI of the Delta table of split watermarks. It is created if it does not exist. It must not contain "
    "`[`, `]`, `^`, backslashes or pipes, and a path must not contain escapes such as `%20`; in a URI, write `%23` for "
    "`#` and `%3F` for `?`. "
    "For a single source also a [name in a catalog](deploy.md#a-table-of-a-catalog). Required with a group.",
)
UPDATE_INTERVAL: Final = Option(
    "scan.watermark.alignment.update-interval",
    POSITIVE_DURATION,
    "1 s",
    "How old the known watermarks of the other members of the [group](groups.md) may be when a batch is planned. "
    "Before a plan waits for a member, the group is always read again. Values above a fourth of `source-timeout`, "
    "or above 15 s, have no further effect, because the group is read that often for its heartbeats.",
)
SOURCE_TIMEOUT: Final = Option(
    "scan.watermark.alignment.source-timeout",
    _TIMEOUT,
    "1 minute",
    "A member of the group that has not renewed its entry for this time is ignored. An AvailableNow run no longer "
    "waits for a member whose watermark has not advanced for this time. Choose many times the duration of a commit to "
    "the table: members renew their entries at least four times in this time.",
)
AVAILABLE_NOW: Final = Option(
    "scan.watermark.alignment.available-now",
    words("complete", "hold"),
    "complete",
    "What a run with the AvailableNow trigger does with rows that alignment holds back: `complete` reads them, "
    "`hold` leaves them to the next run.",
)
ALLOW_UNALIGNED: Final = Option(
    "scan.watermark.alignment.allow-unaligned-source-splits",
    BOOLEAN,
    "false",
    "Some splits can neither be cut by event time nor be paused by the reports of tasks, since no report "
    "reaches the driver. `true`: they run unaligned. `false`: the query fails. Such a split holds back no "
    "other split; the other splits of the source stay aligned. Kafka's splits can always be cut.",
)
IDLE_TIMEOUT: Final = Option(
    "scan.watermark.idle-timeout",
    DURATION,
    "1 minute",
    "A split that has been at its end without new data for longer is idle and does not count. `0`: never.",
)
MAX_OUT_OF_ORDERNESS: Final = Option(
    "scan.watermark.max-out-of-orderness",
    DURATION,
    "0 s",
    "How far event times may fall back within a split. A larger fall is logged as a warning, once for each split.",
)
MAX_FUTURE: Final = Option(
    "scan.watermark.max-future",
    DURATION,
    "1 hour",
    "An event time that is further after the clock than this is implausible. `0`: every event time is plausible.",
)
IMPLAUSIBLE_EVENT_TIME: Final = Option(
    "scan.watermark.implausible-event-time",
    words("fail", "skip", "pass"),
    "fail",
    "What happens to a record whose event time is implausible: `fail` ends the query, `skip` leaves the record "
    "out, `pass` passes it on.",
)
EVENT_TIME: Final = Option(
    "scan.watermark.event-time",
    TEXT,
    "timestamp",
    "Where event time is: a column, a JSON pointer into `value`, or `module:function`. See below.",
)
EVENT_TIME_UNIT: Final = Option(
    "scan.watermark.event-time.unit",
    time_unit(*UNITS),
    None,
    "The unit of event times that are integers: at a JSON pointer, in a bigint column, or returned by a function.",
    default_words="`ms`",
)
SOURCE_ID: Final = Option(
    "scan.source.id",
    TEXT,
    None,
    "Stable name of this source in the group and the table. Two live queries with the same name are an error."
    " By default it consists of the source's description and the *lineage* of the checkpoint, a random"
    " name that each checkpoint gets once.",
    default_words="a generated name",
)

OPTIONS: Final[tuple[Option[Any], ...]] = (
    GROUP,
    MAX_DRIFT,
    TABLE,
    UPDATE_INTERVAL,
    SOURCE_TIMEOUT,
    AVAILABLE_NOW,
    ALLOW_UNALIGNED,
    IDLE_TIMEOUT,
    MAX_OUT_OF_ORDERNESS,
    MAX_FUTURE,
    IMPLAUSIBLE_EVENT_TIME,
    EVENT_TIME,
    EVENT_TIME_UNIT,
    SOURCE_ID,
)

_ONE_A_BATCH: Final = (
    "splits have one watermark at the end of each micro-batch, and the trigger of the query says when that is. Leave "
    "the option out"
)
REFUSED: Final[Mapping[str, str]] = {
    "scan.watermark.emit.strategy": _ONE_A_BATCH,
    "scan.watermark.emit.on-event.gap": _ONE_A_BATCH,
}
"""The options of FLIP-296 that have no meaning in Spark, each with the reason and what to do."""

STORAGE_OPTION_PREFIX: Final = "scan.watermark.alignment.table.option."
"""Options with this prefix go to delta-rs as storage options, without the prefix. Their case does not matter."""


@dataclass(frozen=True)
class AlignmentOptions:
    """The options of one aligned source; times in ms. ``storage_options`` may have secrets, so they are never shown."""

    group: str
    max_drift_ms: int
    table: str
    storage_options: Mapping[str, str] = field(repr=False)
    update_interval_ms: int
    source_timeout_ms: int
    available_now: str
    allow_unaligned_source_splits: bool
    idle_timeout_ms: int
    max_out_of_orderness_ms: int
    max_future_ms: int
    implausible_event_time: str
    event_time: str
    source_id: str | None
    event_time_unit: str | None = None

    @property
    def in_catalog(self) -> bool:
        """Whether the table has a name in a catalog, so that the session must write it."""
        return catalog_name(self.table) is not None

    def name_of_source(self, fingerprint: str, lineage: str) -> str:
        """Returns the id of a source in its group and in the table.

        Args:
            fingerprint: The fingerprint of the source.
            lineage: The lineage of its checkpoint.
        """
        return self.source_id or f"{hashlib.sha256(fingerprint.encode()).hexdigest()[:8]}-{lineage}"

    @staticmethod
    def parse(options: Mapping[str, str]) -> AlignmentOptions | None:
        """Returns the options of alignment among the options of a query.

        Misspelt options are found by :func:`flip27_stream.options.known_options.check_known`.

        Args:
            options: All options of the query, by their names in lower case.

        Returns:
            The options; ``None`` without a group, which means that alignment is off.

        Raises:
            OptionError: A value is wrong, a required option is missing, or an option has no effect.
        """
        group = GROUP.get(options)
        if group is None:
            _refuse_without_group(options)
            return None
        if MAX_DRIFT.name not in options:
            raise _incomplete(MAX_DRIFT.name)
        table = TABLE.require(options)
        if catalog_name(table) is not None:
            _refuse_with_catalog(options, table)
        return AlignmentOptions(
            group=group,
            max_drift_ms=MAX_DRIFT.require(options),
            table=table,
            storage_options=_storage_options(options),
            update_interval_ms=UPDATE_INTERVAL.require(options),
            source_timeout_ms=SOURCE_TIMEOUT.require(options),
            available_now=AVAILABLE_NOW.require(options),
            allow_unaligned_source_splits=ALLOW_UNALIGNED.require(options),
            idle_timeout_ms=IDLE_TIMEOUT.require(options),
            max_out_of_orderness_ms=MAX_OUT_OF_ORDERNESS.require(options),
            max_future_ms=MAX_FUTURE.require(options),
            implausible_event_time=IMPLAUSIBLE_EVENT_TIME.require(options),
            event_time=EVENT_TIME.require(options),
            source_id=SOURCE_ID.get(options),
            event_time_unit=EVENT_TIME_UNIT.get(options),
        )


def _refuse_without_group(options: Mapping[str, str]) -> None:
    for name in sorted(options):
        if name.startswith("scan.watermark.alignment."):
            raise _incomplete(GROUP.name)
        if name.startswith("scan.watermark.") or name == SOURCE_ID.name:
            raise OptionError(
                f"Option '{name}' has no effect without '{GROUP.name}'. Set that option too, or leave this one out."
            )


def _refuse_with_catalog(options: Mapping[str, str], table: str) -> None:
    """Refuses options for delta-rs, and for groups of several sources."""
    for name in sorted(options):
        if name.startswith(STORAGE_OPTION_PREFIX) or name in (UPDATE_INTERVAL.name, SOURCE_TIMEOUT.name):
            raise OptionError(
                f"Option '{name}' has no effect with '{TABLE.name}' = '{table}', the name of a table in a catalog: the "
                "session writes that table, and a group has one source. Leave the option out, or give a path or URI."
            )


def _incomplete(missing: str) -> OptionError:
    return OptionError(
        f"Invalid options: both '{GROUP.name}' and '{MAX_DRIFT.name}' must be set when configuring watermark "
        f"alignment; '{missing}' is missing."
    )


def _storage_options(options: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(STORAGE_OPTION_PREFIX): value
        for name, value in options.items()
        if name.startswith(STORAGE_OPTION_PREFIX)
    }


def called(source: str, reads: str) -> str:
    """Returns the name of a source for messages: the id that a user gave it, or else the topics or paths that it reads.

    Args:
        source: The id of the source.
        reads: A short name of the topics or paths; "" if unknown.
    """
    return reads if reads and re.fullmatch(DERIVED_ID, source) else source
