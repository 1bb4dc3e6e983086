"""Where a table of a catalog is, for a source that reads files and not catalogs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from flip27_stream.connectors.files.delta.delta_features import REFUSED, check_protocol
from flip27_stream.connectors.files.storage.filesystem import locate
from flip27_stream.connectors.files.storage.store_parameters import OPTION_PREFIX
from flip27_stream.errors import ConnectorError, OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMATS: Final = ("delta", "parquet", "orc")
_TABLES: Final = ("MANAGED", "EXTERNAL", "STREAMING_TABLE", "")
_DETAILS: Final = "# Detailed Table Information"
_DBFS: Final = re.compile(r"dbfs:/+(?=[^/])")
_CREDENTIALS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("aws_region", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
    "gs": (),
    "abfs": ("account_key", "sas_token"),
}
"""Storage options that give access to a store, by the first letters of its scheme."""


@dataclass(frozen=True)
class TableLocation:
    """Where the files of a table are, and what is needed to read them.

    Attributes:
        name: the table's name, as it was asked for.
        path: what to give to ``load``.
        options: what to give to ``options`` of the format ``flip27_files``.
        needs: what has to be given besides, in words: access to a store, since the source does not ask the catalog for
            it. Empty for local files.
    """

    name: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def table_location(spark: SparkSession, name: str) -> TableLocation:
    """The location of a table of a catalog, with which ``flip27_files`` reads it::

        location = flip27_stream.table_location(spark, "main.sales.orders")
        spark.readStream.format("flip27_files").options(**location.options).load(location.path)

    Args:
        spark: the session, whose catalogs are asked.
        name: of the table, with its catalog and schema where they are not the current ones.

    Returns:
        Its path, and the options that say what it is.

    Raises:
        ConnectorError: there is no such table, or it cannot be read as files; the error says why.
    """
    if not spark.catalog.tableExists(name):
        raise ConnectorError(
            f"There is no table {name}, or this session may not see it. Name it as SHOW TABLES does, with its catalog "
            "and schema."
        )
    details = _details(spark, name)
    path, kind = details.get("Location", ""), details.get("Provider", "").lower()
    _check(name, details, path, kind)
    if kind == "delta":
        _check_features(spark, name)
    path = _DBFS.sub("/dbfs/", path)
    try:
        storage, inside = locate(path, {})
    except OptionError as error:
        raise _cannot(name, f"its location is {path}: {error}") from error
    local = not storage.uri
    return TableLocation(
        name, inside if local else path, {"files.format": kind}, () if local else _needs(name, path)
    )


def _details(spark: SparkSession, name: str) -> Mapping[str, str]:
    """What the catalog says of a table, by the names that DESCRIBE TABLE EXTENDED has for it."""
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {_quoted(name)}").collect()
    names = [row[0] for row in rows]
    first = names.index(_DETAILS) + 1 if _DETAILS in names else len(rows)
    return {row[0]: row[1] or "" for row in rows[first:] if row[0]}


def _check(name: str, details: Mapping[str, str], path: str, kind: str) -> None:
    """Raises ConnectorError where files are not what the table is."""
    what = details.get("Type", "").upper()
    if not details or what not in _TABLES:
        raise _cannot(name, f"it is no table of files ({what.lower().replace('_', ' ') or 'view'})")
    for protection in ("Row Filter", "Column Masks"):
        if details.get(protection):
            raise _cannot(name, f"it has a {protection.lower()}, which only its catalog applies")
    if kind not in _FORMATS:
        raise _cannot(
            name,
            f"it is a table of format '{kind or 'unknown'}', and only those of {', '.join(_FORMATS)} tell by "
            f"themselves how they are read; give its location ({path or 'unknown'}) and its options to flip27_files",
        )
    if not path:
        raise _cannot(name, "its catalog does not tell where it is")


def _check_features(spark: SparkSession, name: str) -> None:
    """Raises ConnectorError where a Delta table needs features that are not read."""
    (row,) = spark.sql(f"DESCRIBE DETAIL {_quoted(name)}").collect()
    features = row.asDict().get("tableFeatures") or ()  # those of readers and of writers
    check_protocol(f"The table {name}", 0, [one for one in features if one in REFUSED])


def _quoted(name: str) -> str:
    """A name of several parts with each in backticks."""
    parts = re.findall(r"`(?:[^`]|``)+`|[^.`]+", name)
    return ".".join(part if part.startswith("`") else f"`{part}`" for part in parts)


def _needs(name: str, path: str) -> tuple[str, ...]:
    scheme = path.partition(":")[0].lower()
    options = next((names for start, names in _CREDENTIALS.items() if scheme.startswith(start)), None)
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
