"""Sets of characters as Java's regular expressions name them, of the characters that a topic's name can have: ASCII."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable

Characters = frozenset[str]

ASCII: Characters = frozenset(map(chr, range(128)))


class JavaPatternError(ValueError):
    """A regular expression that Java refuses, or that is not translated; the text says what of it."""


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
"""Predefined classes by the letter behind their backslash."""

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
    r"""The characters of ``\p{name}``: a POSIX class or a general category of Unicode, such as ``Lu`` or ``L``.

    Raises:
        JavaPatternError: it is another property.
    """
    if name in _POSIX:
        return _POSIX[name]
    category = name.removeprefix("Is")
    if category in _CATEGORIES or category in {known[0] for known in _CATEGORIES}:
        return frozenset(c for c in ASCII if unicodedata.category(c).startswith(category))
    raise JavaPatternError(
        f"\\p{{{name}}} is not known here; known are {', '.join(_POSIX)}, and general categories such as L and Lu"
    )


def in_both_cases(characters: Iterable[str]) -> Characters:
    """With the same letters in upper and in lower case."""
    return frozenset(
        each for c in characters for each in (c, *((c.lower(), c.upper()) if c in ASCII else ()))
    )


def python_class(characters: Characters) -> str:
    """These characters as a class of Python's."""
    if not characters:
        return "(?!)"
    codes = [f"\\x{ord(c):02x}" for c in sorted(characters)]
    return f"[{''.join(codes)}]"
