"""Options that say how the value of a record becomes columns: ``value.*``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from flip27_stream.connectors.kafka.values.value_decoder import ValueFormat
from flip27_stream.errors import OptionError

OPTION_NAMES = (
    "value.format",
    "value.mode",
    "value.corrupt-column",
    "value.fields-prefix",
    "value.avro.schema",
    "value.avro.confluent-framing",
)
"""Every option, in its canonical spelling."""

T = TypeVar("T")


@dataclass(frozen=True)
class ValueOptions:
    """What the options say, checked.

    Attributes:
        fail_fast: fail at a value that does not decode, in place of nulls.
        corrupt_column: the column that gets the bytes of a value that does not decode.
        fields_prefix: what the names of columns begin with that are fields of the value; where it is empty, every
            column is a field that is none of the record's own.
        avro_schema: the writer's schema, JSON.
        confluent_framing: values begin with a zero byte and a schema id of 4 bytes.
    """

    format: ValueFormat = ValueFormat.RAW
    fail_fast: bool = False
    corrupt_column: str | None = None
    fields_prefix: str = ""
    avro_schema: str | None = None
    confluent_framing: bool = False


class OptionReader(Protocol):
    """Reads single options."""

    def parsed(self, name: str, parse: Callable[[str, str], T], default: T) -> T:
        """The option ``name`` as ``parse(name, text)`` has it, ``default`` where it was not given."""
        ...


def parse(given: Mapping[str, str], read: OptionReader) -> ValueOptions:
    """The options of values among ``given``, whose names are in lower case.

    Raises:
        OptionError: one is wrong, or has no effect with the others.
    """
    kind = read.parsed("value.format", _format, ValueFormat.RAW)
    fail_fast = read.parsed("value.mode", _mode, False)
    needs = {
        "value.mode": "json, avro or string" if kind is ValueFormat.RAW else None,
        "value.corrupt-column": "json, avro or string" if kind is ValueFormat.RAW else None,
        "value.fields-prefix": None if kind.has_fields else "json or avro",
        "value.avro.schema": None if kind is ValueFormat.AVRO else "avro",
        "value.avro.confluent-framing": None if kind is ValueFormat.AVRO else "avro",
    }
    for name, formats in needs.items():
        if formats is not None and name in given:
            raise OptionError(
                f"Option '{name}' needs option 'value.format' to be {formats}; it is {kind.value}."
            )
    if fail_fast and "value.corrupt-column" in given:
        raise OptionError("Option 'value.corrupt-column' needs option 'value.mode' to be permissive.")
    if kind is ValueFormat.AVRO and "value.avro.schema" not in given:
        raise OptionError("With option 'value.format' avro, option 'value.avro.schema' must be given.")
    return ValueOptions(
        kind,
        fail_fast,
        read.parsed("value.corrupt-column", _column, None),
        read.parsed("value.fields-prefix", lambda _, text: text, ""),
        read.parsed("value.avro.schema", _avro_schema, None),
        read.parsed("value.avro.confluent-framing", _boolean, False),
    )


def _format(name: str, text: str) -> ValueFormat:
    try:
        return ValueFormat(text.lower())
    except ValueError as error:
        allowed = ", ".join(kind.value for kind in ValueFormat)
        raise OptionError.of(name, text, f"Allowed: {allowed}.") from error


def _mode(name: str, text: str) -> bool:
    if text.lower() not in ("permissive", "failfast"):
        raise OptionError.of(name, text, "Allowed: permissive, failfast.")
    return text.lower() == "failfast"


def _column(name: str, text: str) -> str | None:
    if not text:
        raise OptionError.of(name, text, "Allowed: the name of a column.")
    return text


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError.of(name, text, "Allowed: true, false.")
    return text.lower() == "true"


def _avro_schema(name: str, text: str) -> str | None:
    # Only a query that decodes Avro needs the library.
    from flip27_stream.connectors.kafka.values.value_avro import writer_schema

    writer_schema(text, name)
    return text
