"""Names of Java classes in options. This source runs no Java code, and has its own implementations of some classes."""

from __future__ import annotations

from typing import Final

from flip27_stream.errors import OptionError
from flip27_stream.options.option import Kind

_SHADED: Final = ("kafkashaded.", "shadedmskiam.")


def bare_name(text: str) -> str:
    """Returns the name of a class without the prefixes that Databricks adds to packages."""
    name = text.strip()
    for prefix in _SHADED:
        name = name.removeprefix(prefix)
    return name


def java_class(*names: str, instead: str = "") -> Kind[str]:
    """Returns the kind of an option whose value is the name of a Java class.

    Args:
        names: The allowed classes: those that this source implements.
        instead: What to do if another class is needed, as a sentence with a space before it.
    """

    def parse(text: str, option: str) -> str:
        name = bare_name(text)
        if name not in names:
            raise OptionError.of(
                option,
                text,
                "This source has no Java client, and has its own implementation of class "
                f"{' or '.join(names)}; name that class or leave the option out.{instead}",
            )
        return name

    return Kind(" or ".join(f"`{name}`" for name in names), parse)
