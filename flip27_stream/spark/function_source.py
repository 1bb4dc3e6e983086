"""A source whose options are the parameters of a function that makes it."""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from flip27_stream.api import Source, WatermarkStrategy
from flip27_stream.api.contract import check_made
from flip27_stream.errors import Flip27Error, OptionError
from flip27_stream.spark.source_contract import check_source

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_BOOLEANS: Final = {"true": True, "false": False}
_ALLOWED: Final = "Annotate it with str, int, float, bool, a Literal of texts, or one of these or None."

CheckSchema = Callable[[Source[Any, Any], pa.Schema | None, str], None]


class FunctionSource:
    """A :class:`SourceFactory` of a function: each parameter is an option, required if it has no default.

    Args:
        make: Returns the source. Its parameters are annotated with ``str``, ``int``, ``float``, ``bool``, a
            ``Literal`` of texts, or one of these or ``None``.
        name: The name of the format.
        check_schema: Checks the schema that the user gave against that of the source.

    Raises:
        ValueError: A parameter cannot be an option.
    """

    option_prefixes: tuple[str, ...] = ()

    def __init__(self, make: Callable[..., Source[Any, Any]], name: str, check_schema: CheckSchema) -> None:
        self.name = name
        self._make = make
        self._check_schema = check_schema
        hints = _type_hints(make, name)
        self._parameters: dict[str, tuple[inspect.Parameter, Any]] = {}
        for parameter in inspect.signature(make).parameters.values():
            kind, key = hints.get(parameter.name), parameter.name.lower()
            _check_parameter(parameter, kind, name)
            if key in self._parameters:
                raise ValueError(
                    f"Parameters '{self._parameters[key][0].name}' and '{parameter.name}' of the function for format "
                    f"'{name}' differ in case only, which names of options ignore. Rename one of them."
                )
            self._parameters[key] = parameter, kind

    @property
    def option_names(self) -> Mapping[str, str]:
        return {key: parameter.name for key, (parameter, _) in self._parameters.items()}

    def check(self, options: Mapping[str, str]) -> None:
        """Checks the options.

        Raises:
            OptionError: An option is missing or wrong.
        """
        self._values(options)

    def schema(self, options: Mapping[str, str]) -> pa.Schema:
        return self._source(options).schema

    def create(
        self,
        options: Mapping[str, str],
        strategy: WatermarkStrategy,
        *,
        bounded: bool,
        schema: pa.Schema | None = None,
        inferred: bool = False,
    ) -> Source[Any, Any]:
        source = self._source(options)
        self._check_schema(source, schema, self.name)
        return source

    def _source(self, options: Mapping[str, str]) -> Source[Any, Any]:
        values = self._values(options)
        try:
            source = self._make(**values)
        except Flip27Error:
            raise
        except Exception as error:
            given = f" with options {', '.join(sorted(values))}" if values else ""
            cause = f"{type(error).__name__}: {error}".rstrip(".: ")
            raise OptionError(
                f"The function for format '{self.name}' failed{given}: {cause}. Correct the options or the function."
            ) from error
        check_made(f"The function for format '{self.name}'", source, Source)
        check_source(source)
        return source

    def _values(self, options: Mapping[str, str]) -> dict[str, Any]:
        values = {}
        for key, (parameter, kind) in self._parameters.items():
            if key in options:
                values[parameter.name] = _parsed(parameter.name, options[key], kind)
            elif parameter.default is parameter.empty:
                raise OptionError(f"Option '{parameter.name}' must be set: format '{self.name}' needs it.")
        return values


def _type_hints(make: Callable[..., Any], name: str) -> dict[str, Any]:
    """Returns the annotations of a function, or of the function that a ``functools.partial`` or an object calls."""
    if not callable(make):
        raise ValueError(
            f"The function for format '{name}' is of type {type(make).__name__}, which cannot be called."
        )
    while isinstance(make, functools.partial):
        make = make.func
    if not inspect.isroutine(make):
        make = getattr(make, "__init__") if isinstance(make, type) else type(make).__call__  # noqa: B009
    try:
        return get_type_hints(make)
    except NameError as error:
        raise ValueError(
            f"The annotations of the function for format '{name}' cannot be evaluated: {error}. Import what they name "
            "at run time, too, and not under TYPE_CHECKING only."
        ) from error


def _check_parameter(parameter: inspect.Parameter, kind: Any, name: str) -> None:
    where = f"Parameter '{parameter.name}' of the function for format '{name}'"
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise ValueError(f"{where} cannot be given by name, so it cannot be an option.")
    if parameter.name.lower().startswith("scan_"):
        raise ValueError(f"{where} must not begin with 'scan': these are options of this package.")
    kind = _without_none(kind)
    words = get_args(kind) if get_origin(kind) is Literal else ()
    if kind not in (str, int, float, bool) and not (words and all(type(word) is str for word in words)):
        has = "has no type annotation" if kind is None else f"has the type {kind}"
        raise ValueError(f"{where} {has}. {_ALLOWED}")


def _without_none(kind: Any) -> Any:
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    kinds = [part for part in get_args(kind) if part is not type(None)]
    return kinds[0] if len(kinds) == 1 else kind


def _parsed(option: str, text: str, kind: Any) -> Any:
    """Returns the value of an option.

    Raises:
        OptionError: The text is not a value of this kind.
    """
    kind = _without_none(kind)
    if kind is str:
        return text
    text = text.strip()
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise OptionError.of(option, text, f"Allowed: {', '.join(get_args(kind))}.")
        return text
    if kind is bool:
        if text.lower() not in _BOOLEANS:
            raise OptionError.of(option, text, "Allowed: true, false.")
        return _BOOLEANS[text.lower()]
    if kind is int and not _WHOLE.fullmatch(text):
        raise OptionError.of(option, text, "Allowed: a whole number.")
    try:
        return kind(text)
    except ValueError:
        raise OptionError.of(option, text, "Allowed: a number.") from None
