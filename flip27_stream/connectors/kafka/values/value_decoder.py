"""What a decoder of values is, and which formats there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc


class ValueFormat(Enum):
    """``value.format``."""

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
    """Columns made of values, and which of these did not decode; ``None`` where all did.

    A value that did not decode has nulls in its row, as far as its fields could not be read.
    """

    columns: Sequence[pa.Array]
    bad: pa.BooleanArray | None = None


class ValueDecoder(ABC):
    """Makes columns of values. Picklable."""

    format: ValueFormat

    @abstractmethod
    def decode(self, values: pa.BinaryArray) -> DecodedValues:
        """Columns of ``values``, as many rows as there are; a value that is null has nulls, and is not bad."""

    @abstractmethod
    def explain(self, value: bytes) -> str:
        """What is wrong with a value that does not decode; nothing of the value itself is told."""


class StringDecoder(ValueDecoder):
    """Text in UTF-8."""

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
