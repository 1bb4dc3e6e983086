"""The options of values (``value.*``), which determine the columns that are made from the value of a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from flip27_stream.connectors.kafka.schema_registry import registry_options
from flip27_stream.connectors.kafka.schema_registry.registry_options import RegistryOptions
from flip27_stream.connectors.kafka.values.value_decoder import ValueFormat
from flip27_stream.errors import OptionError
from flip27_stream.extras import check_installed
from flip27_stream.options.kinds import BOOLEAN, any_text, one_of, text
from flip27_stream.options.option import Kind, Option


@dataclass(frozen=True)
class ValueOptions:
    """The checked options of values.

    Attributes:
        format: The format of values.
        fail_fast: Whether a value that cannot be decoded is an error; else its fields are null.
        corrupt_column: The column with the bytes of values that cannot be decoded; ``None`` without one.
        fields_prefix: The prefix of columns that are fields of the value. If it is empty, all columns that the record
            does not have are fields of the value.
        avro_schema: The writer's schema as JSON; ``None`` for other formats than Avro.
        confluent_framing: Whether values begin with a zero byte and a schema id of 4 bytes.
        registry: The schema registry that has the schemas of these ids; ``None`` if the ids are ignored. Then
            ``avro_schema`` is the reader's schema.
    """

    format: ValueFormat = ValueFormat.RAW
    fail_fast: bool = False
    corrupt_column: str | None = None
    fields_prefix: str = ""
    avro_schema: str | None = None
    confluent_framing: bool = False
    registry: RegistryOptions | None = None


def _avro_schema(text: str, option: str) -> str:
    from flip27_stream.connectors.kafka.values.avro_schema import writer_schema

    writer_schema(text.strip(), option)
    return text.strip()


FORMAT: Final = Option(
    "value.format",
    one_of({form.value: form for form in ValueFormat}),
    "raw",
    "How values are written; see [columns](columns.md).",
)
MODE: Final = Option(
    "value.mode",
    one_of({"permissive": False, "failfast": True}),
    None,
    "What happens to a value that does not decode: its fields are null, or the query fails.",
    default_words="`permissive`, with a format other than `raw`",
)
CORRUPT_COLUMN: Final = Option(
    "value.corrupt-column",
    text("name", "the name of a column"),
    None,
    "The column for the bytes of a value that does not decode.",
)
FIELDS_PREFIX: Final = Option(
    "value.fields-prefix",
    any_text(),
    None,
    "Columns whose names begin with this text are fields of the value.",
)
AVRO_SCHEMA: Final = Option(
    "value.avro.schema",
    Kind("JSON", _avro_schema),
    None,
    "The Avro schema that values were written with; with a schema registry, the schema that they are read as.",
)
CONFLUENT_FRAMING: Final = Option(
    "value.avro.confluent-framing",
    BOOLEAN,
    None,
    "Whether values begin with the id of a schema, as those of Confluent's serializers do.",
    default_words="`true` with a schema registry, else `false`",
)

OPTIONS: Final[tuple[Option[Any], ...]] = (
    FORMAT,
    MODE,
    CORRUPT_COLUMN,
    FIELDS_PREFIX,
    AVRO_SCHEMA,
    CONFLUENT_FRAMING,
    *registry_options.OPTIONS,
)


def parse(options: Mapping[str, str]) -> ValueOptions:
    """Returns the checked options of values.

    Args:
        options: The options of the query, by their names in lower case.

    Raises:
        OptionError: A value is wrong, or an option has no effect together with the others.
    """
    kind = FORMAT.require(options)
    if kind is ValueFormat.AVRO:
        check_installed("fastavro", "avro", f"Option '{FORMAT.name}' avro")
    fail_fast = MODE.get(options) or False
    needs: dict[Option[Any], str | None] = {
        MODE: "json, avro or string" if kind is ValueFormat.RAW else None,
        CORRUPT_COLUMN: "json, avro or string" if kind is ValueFormat.RAW else None,
        FIELDS_PREFIX: None if kind.has_fields else "json or avro",
        AVRO_SCHEMA: None if kind is ValueFormat.AVRO else "avro",
        CONFLUENT_FRAMING: None if kind is ValueFormat.AVRO else "avro",
        registry_options.URL: None if kind.has_fields else "json or avro",
        registry_options.SUBJECT: None if kind is ValueFormat.AVRO else "avro",
    }
    for option, formats in needs.items():
        if formats is not None and option.is_given(options):
            raise OptionError(
                f"Option '{option.name}' needs option 'value.format' to be {formats}; it is {kind.value}."
            )
    if fail_fast and CORRUPT_COLUMN.is_given(options):
        raise OptionError(
            "Option 'value.corrupt-column' needs option 'value.mode' to be permissive. "
            "Set it so, or leave option 'value.corrupt-column' out."
        )
    registry = registry_options.parse(options)
    if kind is ValueFormat.AVRO:
        _check_schema(options, registry)
    return ValueOptions(
        kind,
        fail_fast,
        CORRUPT_COLUMN.get(options),
        (FIELDS_PREFIX.get(options) or "").strip(),
        AVRO_SCHEMA.get(options),
        CONFLUENT_FRAMING.get(options) or False,
        registry,
    )


def _check_schema(options: Mapping[str, str], registry: RegistryOptions | None) -> None:
    """Checks that the options name the schema of values in exactly one way.

    Raises:
        OptionError: No schema is named, more than one is named, or the framing does not fit.
    """
    given = AVRO_SCHEMA.is_given(options)
    subject = registry_options.SUBJECT
    if registry is None:
        if not given:
            raise OptionError(
                f"With option 'value.format' avro, option '{AVRO_SCHEMA.name}' must be given, or option "
                f"'{registry_options.URL.name}' with the address of a schema registry."
            )
        return
    if given and registry.subject is not None:
        raise OptionError(
            f"Options '{AVRO_SCHEMA.name}' and '{subject.name}' cannot be given together: each gives the schema that "
            "values are read as."
        )
    if not given and registry.subject is None:
        raise OptionError(
            f"With option '{registry_options.URL.name}', the schema that values are read as must be given: its subject "
            f"in option '{subject.name}', such as orders-value, or its text in option '{AVRO_SCHEMA.name}'."
        )
    if CONFLUENT_FRAMING.get(options) is False:
        raise OptionError(
            f"Option '{CONFLUENT_FRAMING.name}' false and option '{registry_options.URL.name}' cannot be given "
            "together: the id of a schema is in that frame."
        )
