"""Escape characters in CSV, which Arrow applies everywhere and Spark only inside quotes."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np


def without_escapes(data: bytes, separator: str, quote: str, escape: str, *, line_breaks: bool) -> bytes:
    """Returns ``data`` with the same values and without escapes: an escaped quote becomes a doubled quote.

    Inside of quotes, an escape character stands for itself unless a quote or another escape character is behind it.
    Outside of quotes it always stands for itself. These are the rules of Spark's CSV source.

    Args:
        data: Whole lines.
        separator: The character between values.
        quote: The character around values.
        escape: The character before a quote in a value; not ``quote``.
        line_breaks: Whether values in quotes can have line breaks.
    """
    if escape.encode() not in data:
        return data
    doubled = _doubled(data, separator, quote, escape)
    if doubled is not None:
        return doubled
    one, sign = quote.encode(), escape.encode()

    def unescaped(match: re.Match[bytes]) -> bytes:
        if sign not in match[0]:
            return match[0]
        parts = (part.replace(sign + one, one + one) for part in match[1].split(sign + sign))
        return one + sign.join(parts) + match[2]

    return _quoted(separator, quote, escape, line_breaks).sub(unescaped, data)


def _doubled(data: bytes, separator: str, quote: str, escape: str) -> bytes | None:
    """Returns ``data`` with each escape character replaced by a quote, or ``None`` if that could change values.

    It does not where each of them is before a quote, and inside of quotes. This is the form that Spark writes.
    """
    signs = np.frombuffer(data, np.uint8)
    escapes = np.flatnonzero(signs == ord(escape))
    if escapes[-1] + 1 == len(signs) or (signs[escapes + 1] != ord(quote)).any():
        return None
    quotes = np.flatnonzero(signs == ord(quote))
    escaped = signs[quotes - 1] == ord(escape)
    plain = quotes[~escaped]
    openings = plain[::2]
    begins_value = (openings == 0) | np.isin(signs[openings - 1], [ord(separator), ord("\n"), ord(quote)])
    inside = np.searchsorted(plain, quotes[escaped]) % 2 == 1
    if len(plain) % 2 or not begins_value.all() or not inside.all():
        return None
    changed = signs.copy()
    changed[escapes] = ord(quote)
    return bytes(changed.tobytes())


@lru_cache
def _quoted(separator: str, quote: str, escape: str, line_breaks: bool) -> re.Pattern[bytes]:
    """Returns an expression for a value in quotes, with two groups: the signs after its first quote, and its last one.

    The last quote can be missing at the end of a line, or of the data if values can have line breaks.
    """
    s, q, e = (re.escape(sign.encode()) for sign in (separator, quote, escape))
    end = b"" if line_breaks else rb"\n"
    plain = rb"[^%b%b%b]*" % (q, e, end)
    value = rb"%b(?:(?:%b[^%b]|%b%b)%b)*" % (plain, e, end or b"\0", q, q, plain)
    missing = rb"(?=\n?\Z)" if line_breaks else rb"(?=\n|\Z)"
    return re.compile(rb"(?<![^%b\r\n])%b(%b)(%b(?=[%b\r\n]|\Z)|%b)" % (s, q, value, q, s, missing))
