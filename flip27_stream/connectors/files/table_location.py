"""The location of a table of a catalog, for ``flip27_files``, which reads files and has no access to catalogs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from flip27_stream.connectors.files.delta.delta_features import REFUSED, check_protocol
from flip27_stream.connectors.files.storage.filesystem import locate
from flip27_stream.connectors.files.storage.store_parameters import CREDENTIALS, OPTION_PREFIX
from flip27_stream.errors import ConnectorError, OptionError
from flip27_stream.options.dbfs import on_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMATS: Final = ("delta", "parquet", "orc")
_TABLES: Final = ("MANAGED", "EXTERNAL", "STREAMING_TABLE", "")
_DETAILS: Final = "# Detailed Table Information"


@dataclass(frozen=True)
class TableLocation:
    """The location of the files of a table, and the options that are needed to read them.

    Attributes:
        name: The name of the table, as the user gave it.
        path: The argument for ``load``.
        options: The arguments for ``options`` of format ``flip27_files``.
        needs: Descriptions of the access to the store that the user must add, because the source does not get it from
            the catalog; empty for local files.
    """

    name: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def table_location(spark: SparkSession, name: str) -> TableLocation:
    """Returns the location of a table of a catalog, with which ``flip27_files`` reads it.

    Example::

        location = flip27_stream.table_location(spark, "main.sales.orders")
        spark.readStream.format("flip27_files").options(**location.options).load(location.path)

    Args:
        spark: The session whose catalogs are asked.
        name: The name of the table, with catalog and schema if they are not the current ones.

    Returns:
        The path of the table, and the options to read it.

    Raises:
        ConnectorError: The table does not exist, or cannot be read as files; the error has the reason.
    """
    if not _exists(spark, name):
        raise ConnectorError(
            f"Table {name} does not exist, or this session may not see it. Give its name as SHOW TABLES does, with its "
            "catalog and schema."
        )
    details = _details(spark, name)
    path, kind = details.get("Location", ""), details.get("Provider", "").lower()
    _check(name, details, path, kind)
    if kind == "delta":
        _check_features(spark, name)
    path = on_driver(path)
    try:
        storage, inside = locate(path, {})
    except OptionError as error:
        raise _cannot(name, f"its location is {path}: {error}") from error
    local = not storage.uri
    return TableLocation(
        name, inside if local else path, {"files.format": kind}, () if local else _needs(name, path)
    )


def _exists(spark: SparkSession, name: str) -> bool:
    from pyspark.errors import ParseException

    try:
        return spark.catalog.tableExists(name)
    except ParseException:  # A path, for example, is no name of a table.
        return False


def _details(spark: SparkSession, name: str) -> Mapping[str, str]:
    """Returns the properties of a table in the catalog, by the names in DESCRIBE TABLE EXTENDED."""
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {_quoted(name)}").collect()
    names = [row[0] for row in rows]
    first = names.index(_DETAILS) + 1 if _DETAILS in names else len(rows)
    return {row[0]: row[1] or "" for row in rows[first:] if row[0]}


def _check(name: str, details: Mapping[str, str], path: str, kind: str) -> None:
    """Checks that the rows of the table are those of its files.

    Raises:
        ConnectorError: The table is a view, has a row filter or column masks, or has another format.
    """
    what = details.get("Type", "").upper()
    if not details or what not in _TABLES:
        raise _cannot(name, f"it is not a table of files ({what.lower().replace('_', ' ') or 'view'})")
    for protection in ("Row Filter", "Column Masks"):
        if details.get(protection):
            raise _cannot(name, f"it has a {protection.lower()}, which only its catalog applies")
    if kind not in _FORMATS:
        raise _cannot(
            name,
            f"it is a table of format '{kind or 'unknown'}', and only tables of {', '.join(_FORMATS)} can be "
            f"read without further options; give its location ({path or 'unknown'}) and its options to flip27_files",
        )
    if not path:
        raise _cannot(name, "the catalog does not have its location")


def _check_features(spark: SparkSession, name: str) -> None:
    """Checks the features of a Delta table.

    Raises:
        ConnectorError: The table needs features that are not supported.
    """
    (row,) = spark.sql(f"DESCRIBE DETAIL {_quoted(name)}").collect()
    features = row.asDict().get("tableFeatures") or ()  # The features of readers and of writers.
    check_protocol(f"The table {name}", 0, [one for one in features if one in REFUSED])


def _quoted(name: str) -> str:
    """Returns a name of several parts, with each part in backticks."""
    parts = re.findall(r"`(?:[^`]|``)+`|[^.`]+", name)
    return ".".join(part if part.startswith("`") else f"`{part}`" for part in parts)


def _needs(name: str, path: str) -> tuple[str, ...]:
    scheme = path.partition(":")[0].lower()
    options = next((names for start, names in CREDENTIALS.items() if scheme.startswith(start)), None)
    if options is None:
        return (f"a client of {scheme}: on every machine that reads {path}",)
    if not options:
        return (f"access to {path} by the machine's own identity",)
    listed = ", ".join(f"{OPTION_PREFIX}{option}" for option in options)
    return (
        f"access to {path}, by the machine's own identity or by options ({listed}); Unity Catalog gives temporary "
        f"credentials for reading {name}",
    )


def _cannot(name: str, why: str) -> ConnectorError:
    return ConnectorError(f"The table {name} cannot be read by flip27_files: {why}.")
