"""Converts local times, such as 12:00 in Berlin, to instants in UTC, as Java does."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_US: Final = timedelta(microseconds=1)
_YEAR_2037: Final = (datetime(2037, 1, 1, tzinfo=timezone.utc) - _EPOCH) // _US
_LAST: Final = (datetime(9999, 1, 1, tzinfo=timezone.utc) - _EPOCH) // _US
_ERA: Final = timedelta(days=146_097) // _US  # The calendar repeats after 400 years.


def in_zone(local: pa.TimestampArray, time_zone: str) -> pa.TimestampArray:
    """Returns the instants of local times in a time zone, as Java's ``ZonedDateTime.of``.

    A time that the clock shows twice is the earlier one. A time that it skips is later by the length of the gap.

    Args:
        local: The local times, of a type without a time zone.
        time_zone: A name of the time zone database, or an offset such as ``+02:00``.

    Raises:
        pa.ArrowInvalid: The time zone is unknown.
    """
    unit = local.type.unit
    microseconds = local.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    late = pc.greater_equal(microseconds, _YEAR_2037).fill_null(False)
    early = pc.if_else(late, pa.scalar(None, local.type), local)
    found = pc.assume_timezone(early, time_zone, ambiguous="earliest", nonexistent="earliest")
    skipped = pc.subtract(early, pc.local_timestamp(found))
    instants = pc.add(found, skipped).cast(pa.timestamp(unit, "UTC"))
    if not pc.any(late).as_py():
        return instants
    offsets = _late_offsets(microseconds.filter(late), time_zone).cast(pa.duration(unit))
    return pc.replace_with_mask(instants, late, pc.subtract(local.filter(late), offsets).cast(instants.type))


def _late_offsets(microseconds: pa.Int64Array, time_zone: str) -> pa.DurationArray:
    """Returns the offsets from UTC at local times from 2037 on, for which Arrow does not change to summer time.

    Such times are often one and the same, which stands for "no end".
    """
    is_offset = time_zone.startswith(("+", "-"))
    zone = datetime.strptime(time_zone, "%z").tzinfo if is_offset else ZoneInfo(time_zone)
    encoded = microseconds.dictionary_encode()
    offsets = []
    for number in encoded.dictionary.to_pylist():
        eras = max(0, -((_LAST - number) // _ERA))
        offsets.append((_EPOCH + (number - eras * _ERA) * _US).replace(tzinfo=zone).utcoffset())
    return pa.array(offsets, pa.duration("us")).take(encoded.indices)
