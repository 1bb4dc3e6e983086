"""The interface of value decoders, the formats of values, and the decoder of text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc


class ValueFormat(Enum):
    """The format of values (option ``value.format``)."""

    RAW = "raw"
    STRING = "string"
    JSON = "json"
    AVRO = "avro"

    @property
    def has_fields(self) -> bool:
        """Whether a value is decoded into columns that the schema names."""
        return self in (ValueFormat.JSON, ValueFormat.AVRO)


@dataclass(frozen=True)
class DecodedValues:
    """The columns decoded from values.

    Attributes:
        columns: One array for each column. A value that cannot be decoded has nulls, except for the fields that can be
            read.
        bad: For each value whether it cannot be decoded; ``None`` if all values can be decoded.
    """

    columns: Sequence[pa.Array]
    bad: pa.BooleanArray | None = None


class ValueDecoder(ABC):
    """Decodes values into columns. Picklable."""

    format: ValueFormat

    @abstractmethod
    def decode(self, values: pa.BinaryArray) -> DecodedValues:
        """Returns the columns of ``values``, with one row per value. A null value has nulls and is not bad."""

    @abstractmethod
    def explain(self, value: bytes) -> str:
        """Returns the reason why a value cannot be decoded, without any part of the value."""


class StringDecoder(ValueDecoder):
    """Decodes values as UTF-8 text."""

    format = ValueFormat.STRING

    def decode(self, values: pa.BinaryArray) -> DecodedValues:
        try:
            return DecodedValues([values.cast(pa.string())])
        except pa.ArrowInvalid:
            bad = pa.array([value is not None and not _is_text(value) for value in values.to_pylist()])
            sound = pc.if_else(bad, pa.scalar(None, pa.binary()), values)
            return DecodedValues([sound.cast(pa.string())], bad)

    def explain(self, value: bytes) -> str:
        try:
            value.decode()
        except UnicodeDecodeError as error:
            return f"byte {error.start} is not UTF-8 ({error.reason})"
        return ""


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
