"""The kinds of values that options of several sources have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, urlsplit

from flip27_stream.errors import OptionError
from flip27_stream.options.durations import parse_duration, parse_duration_or_ms, parse_unit
from flip27_stream.options.option import Kind

T = TypeVar("T")

MOST_INT: Final = 2**31 - 1
MOST_LONG: Final = 2**63 - 1

_WHOLE: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_URL_CHARACTERS: Final = re.compile(r"[\x21-\x7e]+")


def whole(least: int = 1, most: int = MOST_LONG) -> Kind[int]:
    """Returns the kind of whole numbers within bounds, both inclusive.

    The options page shows the upper bound unless it is that of all 64-bit numbers.
    """
    shown = f"{least}" if most == MOST_LONG else f"{least} to {most}"

    def parse(text: str, option: str) -> int:
        if not _WHOLE.fullmatch(text.strip()) or not least <= int(text) <= most:
            raise OptionError.of(option, text, f"Allowed: a whole number from {least} to {most}.")
        return int(text)

    return Kind(f"whole number from {shown}", parse)


def alternatives(allowed: Iterable[str]) -> str:
    """Returns one or more words as the options page lists them, such as `` `a`, `b` or `c` ``."""
    *others, last = (f"`{word}`" for word in allowed)
    return f"{', '.join(others)} or {last}" if others else last


def one_of(allowed: Mapping[str, T], words: str | None = None) -> Kind[T]:
    """Returns the kind of certain words, in any case.

    Args:
        allowed: The value of each word.
        words: The text of the options page; by default it lists the words.
    """
    by_word = {word.lower(): value for word, value in allowed.items()}
    spelt = ", ".join(word or "an empty value" for word in allowed)

    def parse(text: str, option: str) -> T:
        word = text.strip().lower()
        if word not in by_word:
            raise OptionError.of(option, text.strip(), f"Allowed: {spelt}.")
        return by_word[word]

    return Kind(words or alternatives(allowed), parse)


def words(*allowed: str) -> Kind[str]:
    """Returns the kind of an option that takes one of these words, in any case. Its value is the word as given here."""
    return one_of({word: word for word in allowed})


def time_unit(*allowed: str) -> Kind[str]:
    """Returns the kind of an option that takes one of these units, in any spelling. Its value is the short name."""
    return Kind(alternatives(allowed), lambda given, option: parse_unit(given, option, allowed))


def text(what: str, allowed: str) -> Kind[str]:
    """Returns the kind of an option that takes a text which is not empty. Its value has no white space around it.

    Args:
        what: The text of the options page.
        allowed: The end of the error message for an empty text.
    """

    def parse(given: str, option: str) -> str:
        if not given.strip():
            raise OptionError.of(option, given.strip(), f"Allowed: {allowed}.")
        return given.strip()

    return Kind(what, parse)


def any_text(what: str = "text") -> Kind[str]:
    """Returns the kind of an option that takes any text, which a later check may refuse. Its value is that text."""
    return Kind(what, lambda given, option: given)


def json_value(text: str) -> Any:
    """Returns the value of a JSON text; ``None`` if it is not JSON, or is nested too deeply for Python's parser."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def json_object(text: str, option: str, example: str) -> dict[str, Any]:
    """Returns the JSON object in a text.

    Args:
        text: The value of the option.
        option: The name of the option, for the error.
        example: An example for the error message.

    Raises:
        OptionError: The text is not a JSON object.
    """
    value = json_value(text)
    if not isinstance(value, dict):
        raise OptionError.of(option, text, example)
    return value


def http_url(text: str) -> SplitResult | None:
    """Returns the parts of a URL with http or https; ``None`` for other texts and for characters that URLs encode."""
    try:
        parts = urlsplit(text)
        has_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if has_server and _URL_CHARACTERS.fullmatch(text) else None


def _parse_text(text: str, option: str) -> str:
    if not text.strip():
        raise OptionError.of(option, text, "It must not be empty.")
    return text.strip()


def _positive(parse: Callable[[str, str], int]) -> Callable[[str, str], int]:
    def parse_positive(text: str, option: str) -> int:
        duration = parse(text, option)
        if duration == 0:
            raise OptionError.of(option, text, "It must be longer than 0.")
        return duration

    return parse_positive


def _or_never(parse: Callable[[str, str], int]) -> Callable[[str, str], int | None]:
    return lambda text, option: parse(text, option) or None


TEXT: Final = Kind("text", _parse_text)
BOOLEAN: Final = one_of({"true": True, "false": False})
DURATION: Final = Kind("duration", parse_duration)
POSITIVE_DURATION: Final = Kind("duration > 0", _positive(parse_duration))
DURATION_OR_MS: Final = Kind("duration", parse_duration_or_ms)
"""The kind of durations for which a number without a unit is in ms, as in Spark's and Databricks' sources."""
POSITIVE_DURATION_OR_MS: Final = Kind("duration > 0", _positive(parse_duration_or_ms))
DURATION_OR_NEVER: Final = Kind("duration", _or_never(parse_duration))
"""The kind of durations for which 0 means never; the value is then ``None``."""
