"""Formats values as text for people: names, durations, sizes."""

from __future__ import annotations

from typing import Final

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))
_SIZES = ("bytes", "kB", "MB", "GB", "TB")

HYBRID: Final = "^[0-9]+:"
"""The prefix of the id of a split in a hybrid source."""
NUMBER: Final = "(-partition)?-[0-9]*$|/(?![^/]*-partition-[0-9]*$)[^/]*$"
"""The end of a split id, which distinguishes the splits of one topic, stream or folder."""


def name(given: str) -> str:
    """Returns a name on one line.

    Args:
        given: Any text. Characters that are not printable, such as line breaks and commands of a terminal, are escaped.
    """
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in given
    )


def name_in_sentence(given: str) -> str:
    """Returns :func:`name`, in quotes if it has spaces: the reader of a sentence would not see where it ends."""
    text = name(given)
    return f"'{text}'" if " " in text else text


def duration(ms: int) -> str:
    """Returns a duration in its two greatest units, such as ``3h12m``.

    Below a minute it is written as ``4.2s``, below a second as ``250ms``. A second unit that would be zero is left out,
    as in ``5m`` and ``4s``.

    Args:
        ms: Milliseconds. They can be negative.
    """
    sign, left = "-" if ms < 0 else "", abs(ms)
    if left < 60_000:
        return f"{sign}{left}ms" if left < 1000 else f"{sign}{left // 100 / 10:g}s"
    counts: list[tuple[int, str]] = []
    for unit, length in _UNITS:
        count, left = divmod(left, length)
        if count or counts:
            counts.append((count, unit))
    return sign + "".join(f"{count}{unit}" for count, unit in counts[:2] if count)


def data_size(count: int) -> str:
    """Returns a number of bytes with its unit, such as ``1.2 MB``."""
    power = min((len(str(count)) - 1) // 3, len(_SIZES) - 1)
    return f"{count / 1000**power:.{1 if power else 0}f} {_SIZES[power]}"
