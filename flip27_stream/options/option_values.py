"""Reads single options: a name in its canonical spelling, the value in the option's words, errors that name both."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from flip27_stream.errors import OptionError

T = TypeVar("T")
N = TypeVar("N", int, None)

MOST_INT = 2**31 - 1
MOST_LONG = 2**63 - 1


class OptionValues:
    """The options given, by their names in lower case; one that was not given has its default."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def has(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str) -> str | None:
        """As it was given, ``None`` where it was not."""
        return self._given.get(name.lower())

    def parsed(self, name: str, parse: Callable[[str, str], T], default: T) -> T:
        """What ``parse`` makes of the name and the value."""
        text = self.text(name)
        return default if text is None else parse(name, text.strip())

    def whole(self, name: str, default: N, least: int = 1, most: int = MOST_LONG) -> int | N:
        """A whole number within bounds."""
        text = self.text(name)
        if text is None:
            return default
        if not re.fullmatch(r"[+-]?\d{1,19}", text.strip(), re.ASCII) or not least <= int(text) <= most:
            raise OptionError.of(name, text, f"Allowed: a whole number from {least} to {most}.")
        return int(text)

    def one_of(self, name: str, default: T, allowed: Mapping[str, T]) -> T:
        """A word, in any case; ``allowed`` has them in lower case."""

        def parse(name: str, text: str) -> T:
            if text.lower() not in allowed:
                raise OptionError.of(name, text, f"Allowed: {', '.join(allowed)}.")
            return allowed[text.lower()]

        return self.parsed(name, parse, default)

    def boolean(self, name: str, default: bool) -> bool:
        """``true`` or ``false``, in any case."""
        return self.one_of(name, default, {"true": True, "false": False})


def json_object(option: str, text: str, example: str) -> dict[str, object]:
    """A JSON object.

    Raises:
        OptionError: it is none; the message shows an example.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise OptionError.of(option, text, example)
    return value
