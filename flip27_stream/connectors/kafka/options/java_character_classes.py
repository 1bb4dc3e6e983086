"""The character classes of Java's regular expressions, limited to ASCII, because names of topics are ASCII."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable

Characters = frozenset[str]

ASCII: Characters = frozenset(map(chr, range(128)))


class JavaPatternError(ValueError):
    """The error for a regular expression that Java refuses or that is not translated. The text names the wrong part."""


_SPACE = frozenset(" \t\n\x0b\f\r")
_HORIZONTAL = frozenset(" \t")
_VERTICAL = frozenset("\n\x0b\f\r")
_DIGITS = frozenset(string.digits)
_WORD = frozenset(string.ascii_letters + string.digits + "_")

ESCAPES: dict[str, Characters] = {
    "d": _DIGITS,
    "D": ASCII - _DIGITS,
    "w": _WORD,
    "W": ASCII - _WORD,
    "s": _SPACE,
    "S": ASCII - _SPACE,
    "h": _HORIZONTAL,
    "H": ASCII - _HORIZONTAL,
    "v": _VERTICAL,
    "V": ASCII - _VERTICAL,
}
"""The predefined classes, by the letter after the backslash."""

_PUNCTUATION = frozenset(string.punctuation)
_GRAPH = frozenset(string.ascii_letters + string.digits) | _PUNCTUATION
_POSIX: dict[str, Characters] = {
    "Lower": frozenset(string.ascii_lowercase),
    "Upper": frozenset(string.ascii_uppercase),
    "ASCII": ASCII,
    "Alpha": frozenset(string.ascii_letters),
    "Digit": _DIGITS,
    "Alnum": frozenset(string.ascii_letters + string.digits),
    "Punct": _PUNCTUATION,
    "Graph": _GRAPH,
    "Print": _GRAPH | {" "},
    "Blank": _HORIZONTAL,
    "Cntrl": frozenset(map(chr, range(32))) | {"\x7f"},
    "XDigit": frozenset(string.hexdigits),
    "Space": _SPACE,
}
_CATEGORIES = {unicodedata.category(chr(i)) for i in range(0x3000)} | {"Cs", "Co"}


def named_class(name: str) -> Characters:
    r"""Returns the characters of ``\p{name}``, a POSIX class or a general category of Unicode such as ``Lu`` or ``L``.

    Raises:
        JavaPatternError: The name is another property.
    """
    if name in _POSIX:
        return _POSIX[name]
    category = name.removeprefix("Is")
    if category in _CATEGORIES or category in {known[0] for known in _CATEGORIES}:
        return frozenset(c for c in ASCII if unicodedata.category(c).startswith(category))
    raise JavaPatternError(
        f"\\p{{{name}}} is not supported; use {', '.join(_POSIX)}, or a general category such as L or Lu"
    )


def in_both_cases(characters: Iterable[str]) -> Characters:
    """Returns the characters, with each letter in upper and in lower case."""
    return frozenset(
        each for c in characters for each in (c, *((c.lower(), c.upper()) if c in ASCII else ()))
    )


def python_class(characters: Characters) -> str:
    """Returns the characters as a character class of Python."""
    if not characters:
        return "(?!)"
    codes = [f"\\x{ord(c):02x}" for c in sorted(characters)]
    return f"[{''.join(codes)}]"
