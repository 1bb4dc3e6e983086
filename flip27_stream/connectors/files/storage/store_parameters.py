"""The values of the options ``files.storage.option.*``, in the types of the constructors of Arrow's file systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from flip27_stream.errors import OptionError
from flip27_stream.options.durations import parse_duration

OPTION_PREFIX: Final = "files.storage.option."
"""The prefix of options.

The rest of the name is a parameter of Arrow's file system, or of delta-rs for a Delta table.
"""

CREDENTIALS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("aws_region", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
    "gs": (),
    "abfs": ("account_key", "sas_token"),
}
"""The options that give access to a store, for files and Delta tables, by the first letters of its scheme."""

S3_NAMES: Final = {
    "aws_access_key_id": "access_key",
    "aws_secret_access_key": "secret_key",
    "aws_session_token": "session_token",
    "aws_region": "region",
    "aws_endpoint_url": "endpoint_override",
    "aws_allow_http": "allow_http",
}
"""Names of delta-rs that are accepted for all files in S3."""

_FLAGS: Final = {"true": True, "false": False}


def typed(name: str, value: str) -> Any:
    """Returns the value of an option in the type that Arrow needs.

    Only known numbers, times and flags are converted, because a key can look like a number.

    Raises:
        OptionError: The option is a time, and the value is not.
        ValueError: The option is a number, and the value is not.
    """
    return _PARSERS[name](value) if name in _PARSERS else _FLAGS.get(value.lower(), value)


def seconds(option: str, text: str) -> float:
    """Returns the seconds of a text: a number of seconds, as in Arrow, or a duration such as ``2s``, as in delta-rs.

    Raises:
        OptionError: The text is neither a number nor a duration.
    """
    try:
        number = float(text)
    except ValueError:
        return parse_duration(text, option) / 1000
    if not 0 <= number < 1e9:
        raise OptionError.of(option, text, "Expected a number of seconds, or a duration such as 2s.")
    return number


def _timeout(name: str) -> Callable[[str], float]:
    return lambda text: seconds(OPTION_PREFIX + name, text)


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "request_timeout": _timeout("request_timeout"),
    "connect_timeout": _timeout("connect_timeout"),
    "retry_time_limit": lambda text: timedelta(seconds=_timeout("retry_time_limit")(text)),
    "replication": int,
    "buffer_size": int,
    "default_block_size": int,
}
