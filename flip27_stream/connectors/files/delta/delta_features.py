"""The features of Delta tables that are read, and those that are refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flip27_stream.errors import ConnectorError

_READ: Final = {
    "columnMapping",
    "deletionVectors",
    "domainMetadata",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
_VARIANT: Final = "columns of type variant are not read; copy the table without them"
_OF_CATALOG: Final = (
    "its catalog has the newest commits, not its folder; read a copy of it, or turn the feature off (ALTER TABLE ... "
    "DROP FEATURE)"
)
REFUSED: Final = {
    "catalogManaged": _OF_CATALOG,
    "catalogOwned-preview": _OF_CATALOG,
    "variantShredding": _VARIANT,
    "variantShredding-preview": _VARIANT,
    "variantType": _VARIANT,
    "variantType-preview": _VARIANT,
}
"""Features that readers must know and that are refused, with the reason."""

_LATEST_READER: Final = 3


def check_protocol(table: str, reader: int, features: Sequence[str]) -> None:
    """Compare what a table asks of readers with what is read here.

    Args:
        table: the table, for the error.
        reader: ``minReaderVersion`` of its protocol.
        features: ``readerFeatures`` of its protocol.

    Raises:
        ConnectorError: the table needs more; the error names each feature.
    """
    unknown = sorted(set(features) - _READ)
    if unknown:
        named = "; ".join(f"{one}: {REFUSED[one]}" if one in REFUSED else one for one in unknown)
        raise ConnectorError(f"{table} needs reader features that are not understood: {named}.")
    if reader > _LATEST_READER:
        raise ConnectorError(
            f"{table} needs a reader of protocol version {reader}; up to {_LATEST_READER} is understood."
        )
