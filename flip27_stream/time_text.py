"""Times as text, for people."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def time_text(ms: int, timespec: str = "seconds") -> str:
    """Returns the date and time of a time in UTC, such as ``2026-01-31 12:00:00``.

    Args:
        ms: Milliseconds since the epoch. A time outside of the years 1 to 9999 is shown as a number.
        timespec: ``seconds``, or ``milliseconds`` where times are compared.
    """
    try:
        time = EPOCH + timedelta(milliseconds=int(ms))
    except OverflowError:
        return f"{ms} ms"
    return time.isoformat(sep=" ", timespec=timespec).removesuffix("+00:00")
