"""The options of watermark alignment (FLIP-296): names, values, defaults, meanings and parsing. Pure."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Generic, TypeVar

from flip27_stream.errors import OptionError

T = TypeVar("T")

DURATION_FORMS: Final = (
    'a number and a unit such as "5 minutes", "5min", "300 s", "250 ms", "1 h 30 min", or "PT5M"'
)

_MS_PER_UNIT: Final = {
    unit: factor
    for units, factor in (
        ("ns nano nanos nanosecond nanoseconds", Fraction(1, 1_000_000)),
        ("us µs micro micros microsecond microseconds", Fraction(1, 1000)),
        ("ms milli millis millisecond milliseconds", Fraction(1)),
        ("s sec secs second seconds", Fraction(1000)),
        ("m min mins minute minutes", Fraction(60_000)),
        ("h hour hours", Fraction(3_600_000)),
        ("d day days", Fraction(86_400_000)),
        ("w week weeks", Fraction(7 * 86_400_000)),
    )
    for unit in units.split()
}
_MAX_MS: Final = 2**62
"""The longest duration (ms): its sum with a time fits into 64 bits."""

_TERM: Final = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?)\s*([a-zµ]+)\s*")
_TERMS: Final = re.compile(rf"(?:{_TERM.pattern})+")
_ISO: Final = re.compile(
    r"p(?=[0-9t])((?:[0-9]+[wd])*)(?:t(?=[0-9])((?:[0-9]+[hm])*(?:[0-9]+(?:\.[0-9]+)?s)?))?"
)


def parse_duration(text: str, option: str) -> int:
    """Returns the milliseconds of a duration in the spelling of Flink, Spark or ISO 8601; "0" needs no unit.

    Args:
        text: the value of the option.
        option: the name of the option, for the error message.

    Raises:
        OptionError: ``text`` is not a duration, is negative, is not a whole number of milliseconds, or is too long.
    """
    words = text.strip().lower().removeprefix("interval ").strip()
    if words == "0":
        return 0
    if iso := _ISO.fullmatch(words):
        words = "".join(part for part in iso.groups() if part)
    if not _TERMS.fullmatch(words):
        raise OptionError.of(option, text, f"Expected a duration: {DURATION_FORMS}.")
    terms = _TERM.findall(words)
    if any(unit not in _MS_PER_UNIT for _, unit in terms):
        raise OptionError.of(option, text, f"Expected a duration: {DURATION_FORMS}.")
    duration = sum((Fraction(number) * _MS_PER_UNIT[unit] for number, unit in terms), Fraction())
    if duration.denominator != 1:
        raise OptionError.of(option, text, "Expected a whole number of milliseconds.")
    if duration >= _MAX_MS:
        raise OptionError.of(option, text, f"Expected less than {_MAX_MS // 86_400_000} days.")
    return int(duration)


@dataclass(frozen=True)
class Kind(Generic[T]):
    """The kind of values of an option.

    Attributes:
        words: the kind in words, for the options page.
        parse: returns the value, from its text and the name of the option.
    """

    words: str
    parse: Callable[[str, str], T]


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option.

    Attributes:
        name: the canonical spelling.
        kind: the kind of its values.
        default: the default, as a user would write it; ``None`` without a default.
        meaning: one sentence, for the options page.
    """

    name: str
    kind: Kind[T]
    default: str | None
    meaning: str

    def get(self, options: Mapping[str, str]) -> T | None:
        """Returns the value in ``options`` (keys in lower case), or else the default; ``None`` without both.

        Raises:
            OptionError: the value is wrong.
        """
        text = options.get(self.name.lower(), self.default)
        return None if text is None else self.kind.parse(text, self.name)

    def require(self, options: Mapping[str, str]) -> T:
        """Returns the value, for an option that has a default or must be given.

        Raises:
            OptionError: the value is wrong or missing.
        """
        value = self.get(options)
        if value is None:
            raise OptionError(f"Option '{self.name}' must be set: {self.meaning}.")
        return value


def _parse_text(text: str, option: str) -> str:
    if not text.strip():
        raise OptionError.of(option, text, "It must not be empty.")
    return text.strip()


_NO_PATH: Final = re.compile(r"[][|^\x00-\x1f\x7f]")
_NO_URI: Final = re.compile(rf"{_NO_PATH.pattern}|[#?]")


def _parse_location(text: str, option: str) -> str:
    """Returns the location; refuses characters that delta-rs drops from a URI, or fails at only when it writes."""
    location = _parse_text(text, option)
    found = (_NO_URI if "://" in location else _NO_PATH).search(location)
    if found:
        remedy = f"Write it as %{ord(found[0]):X}" if found[0] in "#?" else "Give a path without"
        raise OptionError.of(
            option, text, f"delta-rs cannot write to a place with {found[0]!r} in it. {remedy}."
        )
    return location


def _parse_boolean(text: str, option: str) -> bool:
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise OptionError.of(option, text, "Allowed: true, false.")
    return value


def _parse_positive_duration(text: str, option: str) -> int:
    duration = parse_duration(text, option)
    if duration == 0:
        raise OptionError.of(option, text, "It must be longer than 0.")
    return duration


_SHORTEST_TIMEOUT_S: Final = 1
"""A member commits four times in a timeout. With a shorter one, a member that is alive would be counted as gone."""


def _parse_timeout(text: str, option: str) -> int:
    timeout = parse_duration(text, option)
    if timeout < _SHORTEST_TIMEOUT_S * 1000:
        raise OptionError.of(
            option,
            text,
            f"It must be at least {_SHORTEST_TIMEOUT_S} s, and many times as long as a commit to the table takes: a "
            "member renews its entry four times in it.",
        )
    return timeout


def _one_of(*words: str) -> Kind[str]:
    def parse(text: str, option: str) -> str:
        word = text.strip().lower()
        if word not in words:
            raise OptionError.of(option, text, f"Allowed: {', '.join(words)}.")
        return word

    return Kind(" or ".join(f"`{word}`" for word in words), parse)


_TEXT: Final = Kind("text", _parse_text)
_LOCATION: Final = Kind("path or URI", _parse_location)
_BOOLEAN: Final = Kind("boolean", _parse_boolean)
_DURATION: Final = Kind("duration", parse_duration)
_POSITIVE_DURATION: Final = Kind("duration > 0", _parse_positive_duration)
_TIMEOUT: Final = Kind(f"duration >= {_SHORTEST_TIMEOUT_S} s", _parse_timeout)

GROUP: Final = Option(
    "scan.watermark.alignment.group",
    _TEXT,
    None,
    "turns alignment on; sources with the same group (and table) are aligned with each other",
)
MAX_DRIFT: Final = Option(
    "scan.watermark.alignment.max-drift",
    _DURATION,
    None,
    "how far in event time a split may be read ahead of the slowest one that counts; required with a group",
)
TABLE: Final = Option(
    "scan.watermark.alignment.table",
    _LOCATION,
    None,
    "path or URI of the Delta table of split watermarks; required with a group",
)
UPDATE_INTERVAL: Final = Option(
    "scan.watermark.alignment.update-interval",
    _POSITIVE_DURATION,
    "1 s",
    "how old the group's minimum may be when a batch is planned",
)
SOURCE_TIMEOUT: Final = Option(
    "scan.watermark.alignment.source-timeout",
    _TIMEOUT,
    "1 minute",
    "a member of the group that is silent for longer stops counting",
)
AVAILABLE_NOW: Final = Option(
    "scan.watermark.alignment.available-now",
    _one_of("complete", "hold"),
    "complete",
    "whether a run with the AvailableNow trigger reads to its end, or leaves what is held to the next run",
)
ALLOW_UNALIGNED: Final = Option(
    "scan.watermark.alignment.allow-unaligned-source-splits",
    _BOOLEAN,
    "false",
    "let splits that cannot be stopped run unaligned",
)
IDLE_TIMEOUT: Final = Option(
    "scan.watermark.idle-timeout",
    _DURATION,
    "1 minute",
    "a split that was allowed to read and had nothing for longer is idle; 0 for never",
)
MAX_OUT_OF_ORDERNESS: Final = Option(
    "scan.watermark.max-out-of-orderness",
    _DURATION,
    "0 s",
    "how far event times may fall back within a split; more is warned of per split",
)
MAX_FUTURE: Final = Option(
    "scan.watermark.max-future",
    _DURATION,
    "1 hour",
    "how far after the clock an event time may lie and be believed; 0 for any",
)
IMPLAUSIBLE_EVENT_TIME: Final = Option(
    "scan.watermark.implausible-event-time",
    _one_of("fail", "skip", "pass"),
    "fail",
    "what becomes of a record whose event time is not believed",
)
EVENT_TIME: Final = Option(
    "scan.watermark.event-time",
    _TEXT,
    "timestamp",
    "the column that holds event time, a JSON pointer into `value`, or `module:function`",
)
SOURCE_ID: Final = Option(
    "scan.source.id",
    _TEXT,
    None,
    "stable name of this source in the group and the table; by default derived from the source",
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
    SOURCE_ID,
)

STORAGE_OPTION_PREFIX: Final = "scan.watermark.alignment.table.option."
"""The prefix of storage options for delta-rs, which get the rest of the key; delta-rs ignores its case."""


@dataclass(frozen=True)
class AlignmentOptions:
    """The options of one aligned source, by the names of the options; times in ms.

    ``storage_options`` can have secrets, so they are never printed.
    """

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

    def name_of_source(self, fingerprint: str, lineage: str) -> str:
        """Returns the id of the source in group and table; by default made of its fingerprint and its lineage id."""
        return self.source_id or f"{hashlib.sha256(fingerprint.encode()).hexdigest()[:8]}-{lineage}"

    @staticmethod
    def parse(options: Mapping[str, str]) -> AlignmentOptions | None:
        """Returns the alignment options of a query. :func:`check_known` finds misspelt ones.

        Args:
            options: all options of the query, with keys in lower case.

        Returns:
            The options; ``None`` if no group is given, because alignment is off then.

        Raises:
            OptionError: a value is wrong, a required option is missing, or an option has no effect without a group.
        """
        group = GROUP.get(options)
        if group is None:
            _refuse_without_group(options)
            return None
        if MAX_DRIFT.name not in options:
            raise _incomplete(MAX_DRIFT.name)
        return AlignmentOptions(
            group=group,
            max_drift_ms=MAX_DRIFT.require(options),
            table=TABLE.require(options),
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
        )


def check_known(options: Collection[str], known: Mapping[str, str], prefixes: Collection[str] = ()) -> None:
    """Refuses unknown options.

    Args:
        options: the names of the given options, in lower case.
        known: the canonical spelling of each known option, by lower-case name.
        prefixes: prefixes of further known options, such as ``kafka.``.

    Raises:
        OptionError: an option is unknown; the message has the known option with the most similar name.
    """
    starts = tuple(prefix.lower() for prefix in prefixes)
    for name in sorted(options):
        if name in known or (name.startswith(starts) and name not in starts):
            continue
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = (
            f"Did you mean '{known[nearest[0]]}'?"
            if nearest
            else f"Known: {', '.join(sorted(known.values()))}."
        )
        raise OptionError(f"Unknown option '{name}'. {hint}")


def _refuse_without_group(options: Mapping[str, str]) -> None:
    for name in sorted(options):
        if name.startswith("scan.watermark.alignment."):
            raise _incomplete(GROUP.name)
        if name.startswith("scan.watermark.") or name == SOURCE_ID.name:
            raise OptionError(
                f"Option '{name}' has no effect without '{GROUP.name}'. Set that option too, or leave this one out."
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
