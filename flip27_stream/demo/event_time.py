"""Functions for event times, which are milliseconds since the epoch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import numpy as np

from flip27_stream.options.iso_times import epoch_ms, parse_iso_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

MINUTE = 60_000
HOUR = 60 * MINUTE


def parse(text: str) -> int:
    """Returns the event time of a timestamp in a query's progress."""
    time = parse_iso_time(text)
    assert time is not None, text
    return epoch_ms(time)


def clock(event_time: int) -> str:
    """Returns the time of day of an event time (ms), as hours and minutes in UTC."""
    return f"{datetime.fromtimestamp(event_time / 1000, tz=timezone.utc):%H:%M}"


def to_numpy(event_times: Sequence[int]) -> NDArray[np.datetime64]:
    """Returns an array for Matplotlib."""
    return np.array(event_times, "datetime64[ms]")
