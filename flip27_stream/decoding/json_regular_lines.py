"""Decodes lines of JSON that differ only in their values, as many programs write them, faster than a parser.

The first line gives the text around the values. This text is compared with that of every line, so that the values are
left, which are checked, too. Lines are not regular if a value is not a number, a string or null, if null is in place of
a string, or if there are escapes. A parser is faster for lines of many members and if it can skip many of them; the
first line alone tells that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flip27_stream.arrays import Int64s
from flip27_stream.arrow_columns import binaries, longs
from flip27_stream.decoding.datetime_text import INSTANT
from flip27_stream.decoding.json_batches import check_utf8

# With more members, or with a smaller share of wanted ones, a parser costs less.
_MOST_MEMBERS, _LEAST_SHARE = 20, 2 / 3
_MEMBER = re.compile(rb'([{,] *"([^"]*)" *: *)(")?((?(3)[^"]*|[^",{}]+))(?(3)")')
_NUMBER = r"\A-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\z"
_BLANK, _QUOTE, _MINUS, _POINT, _ZERO = b' "-.0'


class _Member(NamedTuple):
    """A member of the objects.

    Attributes:
        name: The name.
        before: The text before the value, with the brace or comma, and with the quote if the value is a string.
        is_text: Whether the value is a string; otherwise it is a number or null.
        first: The value in the first line, without quotes.
    """

    name: bytes
    before: bytes
    is_text: bool
    first: bytes

    @property
    def quotes(self) -> int:
        """The number of quotes around the name and the value."""
        return 4 if self.is_text else 2


def regular_columns(
    lines: bytes, starts: Int64s, ends: Int64s, fields: pa.Schema
) -> Sequence[pa.Array] | None:
    """Returns the columns of lines, or ``None`` if the lines or the columns need a parser.

    Args:
        lines: The lines.
        starts: The positions of the braces with which the lines begin.
        ends: The positions of the braces with which the lines end.
        fields: The columns. A column that the lines lack is null.

    Raises:
        pa.ArrowInvalid: Some lines need a parser, since they are not UTF-8 or a value does not convert to the type of
            its column.
    """
    members = _members(lines[: ends[0] + 1])
    kinds = _kinds(members, {field.name.encode(): field.type for field in fields})
    if kinds is None:
        return None
    check_utf8(pa.py_buffer(lines))
    spans = _spans(lines, starts, ends, members)
    if spans is None:
        return None
    found = {}
    for member, kind, span in zip(members, kinds, spans, strict=True):
        texts = _texts(lines, *span)
        if not (member.is_text or _are_plain(texts)):
            texts = pc.if_else(pc.equal(texts, "null"), pa.scalar(None, pa.string()), texts)
            if not pc.all(pc.match_substring_regex(texts, _NUMBER), min_count=0).as_py():
                return None
        found[member.name] = texts.cast(kind)
    return [found.get(field.name.encode(), pa.nulls(len(starts), field.type)) for field in fields]


def _members(line: bytes) -> list[_Member]:
    """Returns the members of the object in a line, or an empty list if they are too many or the line is not regular."""
    members: list[_Member] = []
    end = 0
    while len(members) < _MOST_MEMBERS and (found := _MEMBER.match(line, end)):
        before, name, quote, value = found.groups(b"")
        if before.startswith(b"{") != (end == 0):
            return []
        members.append(_Member(name, before + quote, bool(quote), value))
        end = found.end()
    return members if line[end:] == b"}" else []


def _kinds(members: Sequence[_Member], wanted: Mapping[bytes, pa.DataType]) -> list[pa.DataType] | None:
    """Returns the types of the members, or ``None`` if the first line shows that a parser is needed or faster.

    Raises:
        pa.ArrowInvalid: A value of the first line does not convert to its type.
    """
    names = {member.name for member in members}
    if not names or len(names) < len(members) or len(names & wanted.keys()) < _LEAST_SHARE * len(names):
        return None
    kinds = []
    for member in members:
        kind = wanted.get(member.name, pa.string() if member.is_text else pa.float64())
        if not (_is_text(kind) if member.is_text else _is_number(kind)):
            return None
        binaries([None if member.first == b"null" else member.first]).cast(pa.string()).cast(kind)
        kinds.append(kind)
    return kinds


def _spans(
    lines: bytes, starts: Int64s, ends: Int64s, members: Sequence[_Member]
) -> list[tuple[Int64s, Int64s]] | None:
    """Returns where the values of each member begin and end, or ``None`` if the lines are not regular.

    Every line has the same number of quotes, so those with the same number in their lines are compared at once.
    """
    firsts = list(accumulate((member.quotes for member in members), initial=0))
    quotes = _quotes(lines, len(starts), firsts[-1])
    if quotes is None:
        return None
    begins = [quotes[at] - member.before.index(b'"') for at, member in zip(firsts, members, strict=False)]
    if not np.array_equal(begins[0], starts):
        return None
    spans = []
    for member, at, (begin, behind) in zip(members, firsts[1:], pairwise([*begins, ends]), strict=True):
        value, end = begin + len(member.before), behind - int(member.is_text)
        closed = not member.is_text or np.array_equal(quotes[at - 1], end)
        if not closed or np.any(value > end) or not _are(lines, begin, member.before):
            return None
        spans.append((value, end))
    return spans


def _quotes(lines: bytes, count: int, of_line: int) -> Int64s | None:
    """Returns the positions of the first quotes of ``count`` lines, of their second quotes, and so on.

    The result is ``None`` if the lines do not have ``of_line`` quotes on average, or have escapes, tabs or the like.
    """
    data = np.frombuffer(lines, np.uint8)
    are_quotes = data == _QUOTE
    if np.count_nonzero(are_quotes) != count * of_line or b"\\" in lines:
        return None
    if np.count_nonzero(data < _BLANK) != count - (not lines.endswith(b"\n")):
        return None
    return np.ascontiguousarray(np.flatnonzero(are_quotes).reshape(count, of_line).T)


def _are(lines: bytes, positions: Int64s, text: bytes) -> bool:
    """Returns whether ``text`` is at all ``positions``."""
    count = len(lines) - len(text) + 1
    windows: np.ndarray = np.ndarray((count,), f"S{len(text)}", lines, strides=(1,))
    return bool(np.all(windows[positions] == text))


def _texts(lines: bytes, begins: Int64s, ends: Int64s) -> pa.StringArray:
    """Returns the texts from ``begins`` to ``ends``, which ascend."""
    borders = np.column_stack((begins, ends)).astype(np.int32)
    with_others = pa.StringArray.from_buffers(borders.size - 1, pa.py_buffer(borders), pa.py_buffer(lines))
    return with_others.take(longs(np.arange(0, borders.size, 2)))


def _are_plain(texts: pa.StringArray) -> bool:
    """Returns whether all texts look like ``-12.5``. If so and if Arrow casts them, they are numbers of JSON.

    Arrow also casts other texts, such as ``007`` and ``.5``.
    """
    borders = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1)
    begins, lasts = borders[:-1], borders[1:] - 1
    if np.any(begins > lasts):
        return False
    signs = np.frombuffer(texts.buffers()[2], np.uint8, borders[-1])
    begins = np.minimum(begins + (signs[begins] == _MINUS), lasts)
    are_digits = signs - _ZERO < 10
    zero_before = (signs[begins] == _ZERO) & (begins < lasts) & are_digits[np.minimum(begins + 1, lasts)]
    return bool(
        np.all(are_digits | (signs == _POINT) | (signs == _MINUS))
        and np.all(are_digits[begins] & are_digits[lasts])
        and not np.any(zero_before)
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(kind in (pa.string(), INSTANT))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_signed_integer(kind) or kind in (pa.float32(), pa.float64()))
