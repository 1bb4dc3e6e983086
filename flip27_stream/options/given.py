"""The options of a source as the user gave them, in Spark's ``option()`` or in code."""

from __future__ import annotations

from collections.abc import Mapping

from flip27_stream.errors import OptionError


def given_options(options: Mapping[str, object]) -> dict[str, str]:
    """Returns options by their names in lower case. Numbers and Booleans become text, as in Spark's ``option()``.

    Raises:
        OptionError: The options are no mapping, or a value is ``None`` or of another type. The message does not show
            the value, which may be a secret.
    """
    if not isinstance(options, Mapping):
        raise OptionError(
            f"The options of a source are given as a dict, such as {{'subscribe': 'clicks'}}, not as "
            f"{type(options).__name__}."
        )
    return {name.lower(): _text(name, value) for name, value in options.items()}


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    what = "is None" if value is None else f"has a value of type {type(value).__name__}"
    raise OptionError(
        f"Option '{name}' {what}. Give a str, an int, a float or a bool, or leave the option out."
    )
