"""Durations in the options of the Kinesis source, in milliseconds."""

from __future__ import annotations

import re
from typing import Final

from flip27_stream.errors import OptionError
from flip27_stream.options.durations import parse_duration
from flip27_stream.options.option import Kind


def _duration(text: str, option: str) -> int:
    """Returns a duration in ms. A number without a unit is in ms, as in Databricks' source."""
    text = text.strip()
    return parse_duration(f"{text} ms" if re.fullmatch(r"\d+", text, re.ASCII) else text, option)


def _positive(text: str, option: str) -> int:
    found = _duration(text, option)
    if found == 0:
        raise OptionError.of(option, text, "It must be longer than 0.")
    return found


DURATION: Final = Kind("duration", _duration)
POSITIVE: Final = Kind("duration > 0", _positive)
