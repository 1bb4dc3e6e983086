"""The model of one option of a query: its name, the values that it takes, its default and its meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flip27_stream.errors import OptionError

T = TypeVar("T")


@dataclass(frozen=True)
class Kind(Generic[T]):
    """The values that an option takes.

    Attributes:
        words: The allowed values, in Markdown, for the options page.
        parse: Returns the value of a text. Its arguments are the text and the name of the option; it raises
            OptionError for a text that is not allowed.
    """

    words: str
    parse: Callable[[str, str], T]


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option.

    The methods take the options of a query by their names in lower case.

    Attributes:
        name: The canonical spelling; a user may write it in any case.
        kind: The values that it takes.
        default: The default as a user would write it; ``None`` if there is no default.
        meaning: The effect of the option, in Markdown, for the options page.
        secret: Whether no message, log, offset or table may show the value.
        default_words: The text of the options page if the default is not a single value.
    """

    name: str
    kind: Kind[T]
    default: str | None
    meaning: str
    secret: bool = False
    default_words: str | None = None

    @property
    def key(self) -> str:
        """The name in lower case."""
        return self.name.lower()

    def is_given(self, options: Mapping[str, str]) -> bool:
        """Returns whether the user set the option."""
        return self.key in options

    def text(self, options: Mapping[str, str]) -> str | None:
        """Returns the value as the user wrote it; ``None`` if it was not given."""
        return options.get(self.key)

    def get(self, options: Mapping[str, str]) -> T | None:
        """Returns the parsed value, or else the parsed default; ``None`` if there is neither.

        Raises:
            OptionError: The value is wrong.
        """
        text = options.get(self.key, self.default)
        return None if text is None else self.kind.parse(text, self.name)

    def require(self, options: Mapping[str, str]) -> T:
        """Returns the parsed value, or else the parsed default.

        Raises:
            OptionError: The value is wrong, or there is neither a value nor a default.
        """
        text = options.get(self.key, self.default)
        if text is None:
            what = self.meaning.partition(". ")[0].rstrip(".")
            raise OptionError(f"Option '{self.name}' must be set: {what[0].lower()}{what[1:]}.")
        return self.kind.parse(text, self.name)

    def wrong(self, value: object, allowed: str) -> OptionError:
        """Returns the error for a value that is not allowed; the error does not show the value of a secret option."""
        if self.secret:
            return OptionError(
                f"Invalid value for option '{self.name}' (the value is secret and not shown). {allowed}"
            )
        return OptionError.of(self.name, value, allowed)


def canonical_names(*options: Iterable[Option[Any]]) -> dict[str, str]:
    """Returns the canonical spelling of each option in some lists, by the name in lower case."""
    return {option.key: option.name for some in options for option in some}
