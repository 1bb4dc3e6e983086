"""The reader features of Delta tables: those that are supported, and those that are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

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
    "the newest commits are in its catalog, not in its folder; read a copy of it, or turn the feature off "
    "(ALTER TABLE ... DROP FEATURE)"
)
REFUSED: Final = {
    "catalogManaged": _OF_CATALOG,
    "catalogOwned-preview": _OF_CATALOG,
    "variantShredding": _VARIANT,
    "variantShredding-preview": _VARIANT,
    "variantType": _VARIANT,
    "variantType-preview": _VARIANT,
}
"""Reader features that are refused, with the reason."""

_COORDINATOR: Final = "delta.coordinatedCommits.commitCoordinator-preview"
_LATEST_READER: Final = 3
_NO_VALUE: Final = re.compile(r"Failed to parse value '(.*?)' as '(.+?)'")
_CATALOG_COMMITS: Final = re.compile(r"catalog-managed table|Max catalog version", re.IGNORECASE)
_NO_TYPE: Final = re.compile(r"Unsupported Delta table type: '(.+?)'")


def check_protocol(table: str, reader: int, features: Sequence[str]) -> None:
    """Checks that a table needs no reader feature that is not supported.

    Args:
        table: The table, for the error.
        reader: The ``minReaderVersion`` of its protocol.
        features: The ``readerFeatures`` of its protocol.

    Raises:
        ConnectorError: The table needs other features, which the error names, or a later protocol version.
    """
    unknown = sorted(set(features) - _READ)
    if unknown:
        named = "; ".join(f"{one}: {REFUSED[one]}" if one in REFUSED else one for one in unknown)
        raise ConnectorError(f"{table} needs reader features that are not supported: {named}.")
    if reader > _LATEST_READER:
        raise ConnectorError(
            f"{table} needs a reader of protocol version {reader}; versions up to {_LATEST_READER} are supported."
        )


def is_coordinated(configuration: Mapping[str, Any]) -> bool:
    """Returns whether a table has a commit coordinator; see :func:`check_configuration`."""
    return bool(configuration.get(_COORDINATOR))


def check_configuration(table: str, configuration: Mapping[str, Any]) -> None:
    """Checks that all commits of a table are in its log.

    Coordinated commits are a feature for writers, so the protocol does not keep a reader from such a table. Its newest
    commits are in another folder until the coordinator copies them.

    Args:
        table: The table, for the error.
        configuration: The properties of the table.

    Raises:
        ConnectorError: The table has a commit coordinator.
    """
    if is_coordinated(configuration):
        raise ConnectorError(
            f"{table} has a commit coordinator ('{configuration[_COORDINATOR]}', property '{_COORDINATOR}'), which has "
            "its newest commits. Such tables are not read. Read a copy of it, or drop its feature "
            "coordinatedCommits-preview (ALTER TABLE ... DROP FEATURE)."
        )


def refuse_unreadable(table: str, error: Exception) -> None:
    """Raises a clear error if ``error`` of delta-rs means that the table cannot be read; otherwise does nothing.

    delta-rs does not read tables whose newest commits are in a catalog, and does not know the types of some columns.
    A partition value that was written before the type of its column was widened does not always parse as the wider
    type: ``1.5`` is not a value of a decimal with two digits.

    Args:
        table: The table, for the error.
        error: The error of delta-rs.

    Raises:
        ConnectorError: delta-rs cannot read the table or a column. The text names the feature or the type.
    """
    if _CATALOG_COMMITS.search(str(error)):
        check_protocol(table, _LATEST_READER, ["catalogManaged"])
    if found := _NO_TYPE.search(str(error)):
        raise ConnectorError(
            f"{table} has a column of type {found[1]}, which is not read. Copy the table without that column."
        ) from error
    if found := _NO_VALUE.search(str(error)):
        raise ConnectorError(
            f"{table} has the partition value {found[1]!r}, which cannot be read as {found[2]}: the type of its column "
            "was widened after it was written. Rewrite the rows of such partitions, for example with UPDATE."
        ) from error
