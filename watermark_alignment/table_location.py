"""The location of a split-watermark table as a text: its forms, and what to write in place of a wrong one.

The module does no I/O.
"""

from __future__ import annotations

import re
import sys
from typing import Final

from flip27_stream.errors import OptionError
from flip27_stream.options.dbfs import on_driver

TABLE_OPTION: Final = "scan.watermark.alignment.table"

_NAME: Final = re.compile(r"(?:\w+|`[^`/]+`)(?:\.(?:\w+|`[^`/]+`)){1,2}")
_UNQUOTED_NAME: Final = re.compile(r"[\w-]+(?:\.[\w-]+){1,2}")
_QUOTED: Final = re.compile(r"\w*-[\w-]*")
_ABSOLUTE: Final = re.compile(r"/|(?:file|dbfs):/|[A-Za-z][A-Za-z0-9+.-]*://")
_NO_PATH: Final = re.compile(r"[][|^\\\x00-\x1f\x7f]")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_NO_URI: Final = re.compile(rf"{_NO_PATH.pattern}|[#?]")
_SECRET: Final = re.compile(
    r"^(?!(?i:file|dbfs):/(?!/[^/])|(?i:hdfs|viewfs):/*[^/@:]+:\d+/)([A-Za-z][\w+.-]*:/*)[^/@]*:.*@",
    re.DOTALL,
)
"""User info, with a password, of a URI with any number of slashes. Paths have none, and a port is not user info."""
_SECRET_INSIDE: Final = re.compile(r"(:/+)[^/@:]*:(?!\d+/)[^@]*@")
"""User info that is not at the beginning, as of a URI in quotes."""
_QUERY: Final = re.compile(r"^([A-Za-z][\w+.-]*:/[^?]*)\?.+", re.DOTALL)
_SCHEME: Final = re.compile(r"^[A-Za-z][\w+.-]*:(?=/)")

_WITHOUT_PLACE: Final = re.compile(r"[^:/]+://|(?i:s3a?|gc?s|abfss?|az|adl)://(?:/.*)?")
_WITHOUT_SLASHES: Final = re.compile(r"(?i:(s3a?|gc?s|abfss?|az|adl|hdfs|viewfs)):(?!//)/?(.*)")
_HOST_AND_PORT: Final = re.compile(r"[^/]+:\d+(?:/|$)")
_CONTAINER: Final = re.compile(r"[^/]+@")
_CATALOG_URI: Final = re.compile(r"(?i:uc):/+(.*)")
_MEMORY: Final = re.compile(r"(?i:(?:opendal\+)?memory):.*")
_FILE_OF_HOST: Final = re.compile(r"(?i:file)://([^/]+)(.*)")
_NO_VOLUME: Final = (
    "" if sys.platform == "darwin" else "(?:/+[^/]+){0,2}"
)  # On a Mac, disks are below /Volumes.
_BARE_MOUNT: Final = re.compile(rf"(?:file:|dbfs:)?/+Volumes{_NO_VOLUME}/*|(?:file:)?/+dbfs/*|dbfs:/+")
_AZURE_PLACE: Final = "container@account.dfs.core.windows.net/"
_PLACES: Final = {
    "hdfs": "namenode:8020/",
    "viewfs": "cluster/",
    "abfs": _AZURE_PLACE,
    "abfss": _AZURE_PLACE,
}
_KINDS_OF_PLACE: Final = {
    "hdfs": "a host",
    "viewfs": "a cluster",
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), "a container"),
}
_URIS: Final = f"s3://bucket/folder, abfss://{_AZURE_PLACE}folder or gs://bucket/folder"
_URIS_OF_OTHERS: Final = {
    "hdfs": "hdfs://namenode:8020/folder",
    "viewfs": "viewfs://cluster/folder",
    "file": "file:///folder",
}
_LEAVE_OUT: Final = (
    "The location has credentials in it, and is shown in logs and errors. Leave the credentials out, and give them as "
    f"options {TABLE_OPTION}.option.<name>; python -m watermark_alignment has --storage-option, StatusListener and "
    "plot have storage_options."
)


def catalog_name(location: str) -> str | None:
    """Returns the name of a table in a catalog in one spelling, or ``None`` for a path or URI.

    The name is ``schema.table`` or ``catalog.schema.table``.
    """
    return location.replace("`", "").lower() if _NAME.fullmatch(location) else None


def for_delta_rs(location: str) -> str:
    """Returns a location as delta-rs takes it.

    This is a path of the machine for ``dbfs:/...``, ``gs://`` for ``gcs://``, and ``file:///`` for
    ``file://localhost/``.

    delta-rs has another store for ``gcs://``, which takes none of the options for credentials of ``gs://``.
    """
    return re.sub("^gcs://", "gs://", on_driver(normalised(location)))


def normalised(location: str) -> str:
    """Returns a location with its scheme in lower case, and ``file:///`` in place of ``file://localhost/``."""
    location = _SCHEME.sub(lambda scheme: scheme[0].lower(), location.strip())
    return re.sub("^file://localhost/", "file:///", location, flags=re.IGNORECASE)


def shown(location: str) -> str:
    """Returns a location as logs and errors show it: with ``...`` in place of credentials and of a URI's query."""
    return _QUERY.sub(r"\1?...", _SECRET_INSIDE.sub(r"\1...@", _SECRET.sub(r"\1...@", location.strip())))


def parse_location(text: str, option: str) -> str:
    """Returns an absolute path or a URI that delta-rs can write to, or the name of a table in a catalog.

    Some characters are refused: with some of them delta-rs panics when it writes, without a clear error, others it
    drops from a URI, and a backslash it takes for a slash.

    Args:
        text: The value of the option.
        option: The name of the option.

    Raises:
        OptionError: The location is empty or relative, is a URI without a bucket, is no place where a table can be, or
            contains such characters or a password.
    """
    text = text.strip()
    location = normalised(text)
    if not location:
        raise OptionError.of(option, text, "It must not be empty.")
    if catalog_name(location) is not None:
        return location
    if (refusal := why_no_place(location)) is not None:
        raise OptionError.of(option, shown(text), refusal)
    if not _ABSOLUTE.match(location):
        raise OptionError.of(option, shown(text), _relative_path_remedy(location))
    _check_characters(location, option)
    return location


def why_no_place(location: str) -> str | None:
    """Returns why no table can be at a location, and what to write, in sentences; ``None`` if one can be there.

    The sentences have no credentials in them.

    Args:
        location: A path or URI, as the user gave it.
    """
    location = normalised(location)
    if _SECRET.search(location):
        return _LEAVE_OUT
    if lacking := _WITHOUT_SLASHES.fullmatch(location):
        return _with_slashes(lacking[1], lacking[2])
    if table := _CATALOG_URI.fullmatch(location):
        name = table[1] if catalog_name(table[1]) is not None else "catalog.schema.table"
        return (
            f"URIs of catalogs are not supported. Write the name of the table, {name}, for a single source, or the "
            f"location that flip27_stream.table_location(spark, '{name}').path returns."
        )
    if _MEMORY.fullmatch(location):
        return (
            "A table in memory ends with its process, and other processes do not see it. Write an absolute path, or "
            f"a URI such as {_URIS}."
        )
    if file := _FILE_OF_HOST.fullmatch(location):
        return (
            f"After 'file://' comes a host, here '{file[1]}', and delta-rs reads files of this machine only. Write "
            f"three slashes before the path: 'file:///{file[1]}{file[2]}', or 'file://{file[2] or '/folder'}' if "
            f"'{file[1]}' is a host."
        )
    if _BARE_MOUNT.fullmatch(location):
        return (
            "That is the root of a file system of Databricks, and not a folder for one table. Write a folder in it, "
            "such as /Volumes/main/streaming/files/split_watermarks or dbfs:/delta/split_watermarks."
        )
    if _WITHOUT_PLACE.fullmatch(location):
        uris = _URIS_OF_OTHERS.get(location.partition(":")[0].lower(), _URIS)
        return (
            f"The URI does not say in which bucket, container or host the table is. Write one such as {uris}."
        )
    return None


def _with_slashes(scheme: str, rest: str) -> str:
    """Returns the remedy for a URI in which a slash after the scheme is missing."""
    kind = scheme.lower()
    if not rest:
        place = _KINDS_OF_PLACE.get(kind, "a bucket")
        uris = _URIS_OF_OTHERS.get(kind, _URIS)
        return f"After '{scheme}:' come two slashes and {place}. Write a URI such as {uris}."
    has_place = (_HOST_AND_PORT if kind in _URIS_OF_OTHERS else _CONTAINER).match(rest)
    place = "" if has_place else _PLACES.get(kind, "")
    return f"Two slashes must follow '{scheme}:'. Write '{scheme}://{place}{rest}'."


def _check_characters(location: str, option: str) -> None:
    """Checks that delta-rs can write to a place with these characters.

    Raises:
        OptionError: It cannot, or would use another place.
    """
    found = (_NO_URI if "://" in location else _NO_PATH).search(location)
    if found:
        advice = f"Write it as %{ord(found[0]):X}" if found[0] in "#?" else "Give a path without"
        raise OptionError.of(
            option, shown(location), f"delta-rs cannot write to a place with {found[0]!r} in it. {advice}."
        )
    if on_driver(location).startswith("/") and (escape := _ESCAPE.search(location)):
        meant = bytes.fromhex(escape[1]).decode(errors="replace")
        raise OptionError.of(
            option,
            shown(location),
            f"delta-rs reads '{escape[0]}' in a path as {meant!r}, and would use another folder. "
            "Write the character itself, or give a path without it.",
        )


def _file_name(location: str) -> str:
    names: list[str] = re.findall(r"[\w-]+", location)
    return names[-1] if names else "split_watermarks"


def _relative_path_remedy(location: str) -> str:
    file = _file_name(location)
    remedy = (
        "A relative path depends on the working directory of the driver. Write an absolute path such as "
        f"/Volumes/main/streaming/files/{file}, or a URI such as s3://bucket/{file}; or, for a single source, the name "
        f"of a table in a catalog, such as main.streaming.{file.replace('-', '_')}."
    )
    if _UNQUOTED_NAME.fullmatch(location):
        quoted = _QUOTED.sub(lambda part: f"`{part[0]}`", location)
        remedy += f" If it is the name of a table in a catalog, write {quoted}."
    return remedy
