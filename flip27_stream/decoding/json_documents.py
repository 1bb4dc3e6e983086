"""Parses JSON documents into Python values. Numbers stay text, and objects keep all their fields."""

from __future__ import annotations

import json
import re
from typing import Any, Final


class Number(str):
    """A number as it was written; also ``NaN``, ``Infinity`` and ``-Infinity``."""

    __slots__ = ()


class DocumentError(ValueError):
    """An error for a text that is not a JSON document. The message has the position."""


_DECODER: Final = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=tuple
)

# Forms that are not JSON, and that Jackson accepts with Spark's default options.
_LENIENT: Final = re.compile(
    r"""("(?:[^"\\]|\\.)*")|'((?:[^'\\]|\\.)*)'|(?:\+Infinity|([+-])INF)(?![^\s,\]}])""", re.DOTALL
)
_NEED_LENIENCY: Final = ("'", "INF", "+Infinity")
_ESCAPE_OR_QUOTE: Final = re.compile(r'\\(.)|"', re.DOTALL)


def parse_document(document: bytes, *, strict_utf8: bool = False) -> Any:
    """Returns the value of ``document``: ``None``, bool, str, :class:`Number`, list, or a tuple for an object.

    The tuple has the name and the value of each field in their order, including fields with repeated names. Like
    Jackson in Spark, it accepts single quotes in place of double quotes, and ``+INF``, ``-INF`` and ``+Infinity`` as
    numbers.

    Args:
        document: JSON in UTF-8.
        strict_utf8: Whether to refuse bytes that are not UTF-8. Otherwise they are replaced by U+FFFD.

    Raises:
        DocumentError: The text is not JSON, or something follows the value.
        RecursionError: The value is nested too deeply for Python's parser.
    """
    try:
        text = document.decode("utf-8", "strict" if strict_utf8 else "replace")
    except UnicodeDecodeError as error:
        raise DocumentError(f"byte {error.start} is not UTF-8 ({error.reason})") from error
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        if any(sign in text for sign in _NEED_LENIENCY):
            return _parse_leniently(text)
        raise DocumentError(f"{error.msg} at character {error.pos}") from error


def _parse_leniently(text: str) -> Any:
    try:
        return _DECODER.decode(_LENIENT.sub(_in_strict_json, text))
    except json.JSONDecodeError as error:
        raise DocumentError(f"{error.msg} near character {error.pos}") from error


def _in_strict_json(found: re.Match[str]) -> str:
    double, single, sign = found.groups()
    if double is not None:
        return _ESCAPE_OR_QUOTE.sub(_without_escaped_apostrophe, double)
    if single is not None:
        return f'"{_ESCAPE_OR_QUOTE.sub(_within_double_quotes, single)}"'
    return "-Infinity" if sign == "-" else "Infinity"


def _without_escaped_apostrophe(found: re.Match[str]) -> str:
    return "'" if found[1] == "'" else found[0]


def _within_double_quotes(found: re.Match[str]) -> str:
    return '\\"' if found[0] == '"' else _without_escaped_apostrophe(found)
