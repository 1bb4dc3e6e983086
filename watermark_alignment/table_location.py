"""The location of a split-watermark table: its forms, the abilities of its file system, and remedies for errors."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from flip27_stream.errors import AlignmentError, OptionError
from flip27_stream.options.dbfs import on_driver

TABLE_OPTION: Final = "scan.watermark.alignment.table"
RENAME: Final = "allow_unsafe_rename"
"""The storage option that makes delta-rs commit by renaming files, for file systems without hard links."""

_WITHOUT_LINKS: Final = (errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV)
_MOUNTS: Final = ("/dbfs", "/Volumes")
_MISSPELT_MOUNT: Final = re.compile(r"/(?!Volumes/)(?i:volumes?)(?=/)")
_DBFS_MOUNTS: Final = Path("/dbfs/mnt")
_GRANTS: Final = (
    "Permissions granted in a catalog do not reach it: the process that opens the table needs credentials of its own, "
    f"in its environment or as options. A query has {TABLE_OPTION}.option.<name>"
)
_OTHERS: Final = (
    "python -m watermark_alignment has --storage-option, StatusListener and plot have storage_options"
)
_CREDENTIALS: Final = {
    (
        "s3://",
        "s3a://",
    ): "aws_access_key_id, aws_secret_access_key, aws_session_token, aws_region, aws_endpoint",
    ("abfss://", "abfs://", "az://", "adl://"): (
        "azure_storage_account_name and azure_storage_account_key, or azure_client_id, azure_client_secret and "
        "azure_tenant_id, or azure_storage_sas_key"
    ),
    ("gs://",): "google_service_account (a path), google_service_account_key",
}
_UNKNOWN_SCHEME: Final = "Unknown scheme"
_SCHEMES: Final = (
    "delta-rs, which writes the table, does not know URIs of this kind. Give s3://bucket/folder, "
    "abfss://container@account.dfs.core.windows.net/folder (for wasbs:// too), gs://bucket/folder, or an absolute path "
    f"(option {TABLE_OPTION})."
)
_DAMAGE: Final = re.compile(
    r"Json error|contiguous commit files|No table metadata or protocol|Invalid Checkpoint|less than footer"
    r"|Failed to fetch metadata for file .*(?:not found|range was invalid)"
)
_RENEW: Final = (
    "A file of the table is damaged or missing. Restore the folder from a copy; or, if it has split watermarks only, "
    "delete it: queries create it again and go on from their checkpoints. Only the status and the pictures of earlier "
    "batches are lost."
)
_UNKNOWN_FEATURES: Final = re.compile(
    r"Feature '\w+' is not supported|Unsupported table features|Unsupported minimum \w+ version|Invalid protocol action"
)
_ANOTHER_WRITER: Final = (
    "Another program has given the table features that delta-rs, which writes it, does not know. Give a path where no "
    f"table is yet: queries create it there and go on from their checkpoints ({TABLE_OPTION})."
)
_OS_ERROR: Final = re.compile(r"os error (\d+)|Os \{ code: (\d+)")
_NOT_HERE: Final = {
    errno.EACCES: (
        "The user of this process has no permission to write to this path. Grant that permission, or give another path "
        f"(option {TABLE_OPTION})."
    ),
    errno.ENOTDIR: (
        f"A part of the path is a file and not a folder. Give another path (option {TABLE_OPTION})."
    ),
    errno.ENOSPC: "The disk is full. Free some space.",
    errno.EROFS: f"The file system is read-only. Give another path (option {TABLE_OPTION}).",
}


_NAME: Final = re.compile(r"(?:\w+|`[^`/]+`)(?:\.(?:\w+|`[^`/]+`)){1,2}")
_UNQUOTED_NAME: Final = re.compile(r"[\w-]+(?:\.[\w-]+){1,2}")
_QUOTED: Final = re.compile(r"\w*-[\w-]*")
_ABSOLUTE: Final = re.compile(r"/|(?:file|dbfs):/|[A-Za-z][A-Za-z0-9+.-]*://")
_NO_PATH: Final = re.compile(r"[][|^\x00-\x1f\x7f]")
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_NO_URI: Final = re.compile(rf"{_NO_PATH.pattern}|[#?]")
_SECRET: Final = re.compile(r"(?<=://)[^/@]*:.*@")
_WITHOUT_PLACE: Final = re.compile(r"[^:/]+://|(?i:s3a?|gs|abfss?|az|adl)://(?:/.*)?")
_CATALOG_URI: Final = re.compile(r"(?i:uc):/+(.*)")


def _file_name(location: str) -> str:
    names: list[str] = re.findall(r"[\w-]+", location)
    return names[-1] if names else "split_watermarks"


def _table_name(location: str) -> str:
    return _file_name(location).replace("-", "_")


def catalog_name(location: str) -> str | None:
    """Returns the name of a table in a catalog (``schema.table`` or ``catalog.schema.table``) in one spelling, or
    ``None`` if a location is a path or URI.
    """
    return location.replace("`", "").lower() if _NAME.fullmatch(location) else None


def parse_location(text: str, option: str) -> str:
    """Returns an absolute path or a URI that delta-rs can write to, or the name of a table in a catalog.

    Some characters are refused: with some of them delta-rs panics when it writes, without a clear error, and others it
    drops from a URI.

    Args:
        text: The value of the option.
        option: The name of the option.

    Raises:
        OptionError: The location is empty or relative, is a URI without a bucket, or contains such characters or a
            password.
    """
    location = text.strip()
    if _SECRET.search(location):
        raise OptionError.of(
            option,
            _SECRET.sub("...@", location),
            "The location has credentials in it, and is shown in logs and errors. Leave the credentials out, and give "
            f"them as options {option}.option.<name>.",
        )
    if not location:
        raise OptionError.of(option, text, "It must not be empty.")
    if catalog_name(location) is not None:
        return location
    if not _ABSOLUTE.match(location):
        raise OptionError.of(option, text, _relative_path_remedy(location))
    _check_uri(location, option)
    found = (_NO_URI if "://" in location else _NO_PATH).search(location)
    if found:
        advice = f"Write it as %{ord(found[0]):X}" if found[0] in "#?" else "Give a path without"
        raise OptionError.of(
            option, text, f"delta-rs cannot write to a place with {found[0]!r} in it. {advice}."
        )
    if on_driver(location).startswith("/") and (escape := _ESCAPE.search(location)):
        raise OptionError.of(
            option,
            text,
            f"delta-rs reads '{escape[0]}' in a path as {unquote(escape[0])!r}, and would use another folder. "
            "Write the character itself, or give a path without it.",
        )
    return location


def _check_uri(location: str, option: str) -> None:
    """Checks that a URI names a bucket, container or host, and is not that of a table in a catalog.

    Raises:
        OptionError: It does not, or it is.
    """
    if table := _CATALOG_URI.fullmatch(location):
        name = table[1] if catalog_name(table[1]) is not None else "catalog.schema.table"
        raise OptionError.of(
            option,
            location,
            f"URIs of catalogs are not supported. Write the name of the table, {name}, for a single source, or the "
            f"location that flip27_stream.table_location(spark, '{name}').path returns.",
        )
    if _WITHOUT_PLACE.fullmatch(location):
        raise OptionError.of(
            option,
            location,
            "The URI does not say in which bucket, container or host the table is. Write one such as "
            "s3://bucket/folder, abfss://container@account.dfs.core.windows.net/folder or hdfs://host/folder.",
        )


def _relative_path_remedy(location: str) -> str:
    remedy = (
        "A relative path depends on the working directory of the driver. Write an absolute path such as "
        f"/Volumes/main/streaming/files/{_file_name(location)}, or a URI such as "
        f"s3://bucket/{_file_name(location)}; or, for a single source, the name of a table in a catalog, such as "
        f"main.streaming.{_table_name(location)}."
    )
    if _UNQUOTED_NAME.fullmatch(location):
        quoted = _QUOTED.sub(lambda part: f"`{part[0]}`", location)
        remedy += f" If it is the name of a table in a catalog, write {quoted}."
    return remedy


def local_folder(location: str) -> Path | None:
    """Returns the folder of a location on a file system of this machine, or ``None`` for an object store."""
    if location.startswith("file:/"):
        return Path("/" + unquote(location.removeprefix("file:").lstrip("/")))
    return None if "://" in location else Path(location)


def is_unknown_scheme(cause: str) -> bool:
    """Returns whether a message of delta-rs is its error for a URI scheme without a store."""
    return cause.startswith(_UNKNOWN_SCHEME)


def check_folder(location: str) -> None:
    """Checks that a path has no file where a folder must be, and that a path of Databricks is mounted.

    Otherwise delta-rs would say that the path does not exist, or create a local folder with the name of the mount.

    Raises:
        AlignmentError: A part of the path is a file, or the path is not mounted on this machine.
    """
    folder = local_folder(location)
    file = (
        next((p for p in (folder, *folder.parents) if os.path.isfile(p)), None)
        if folder is not None
        else None
    )
    if file is not None:
        raise AlignmentError(
            f"The split-watermark table at '{location}' cannot be opened: '{file}' is a file. Give the path of a "
            f"folder (option {TABLE_OPTION})"
        )
    if location.startswith("/mnt/") and _DBFS_MOUNTS.is_dir():
        raise AlignmentError(
            f"Option '{TABLE_OPTION}' is '{location}', which Spark reads as 'dbfs:{location}', and other programs as "
            f"a folder on the driver's disk, which is deleted with the cluster. Write 'dbfs:{location}', or "
            f"'file:{location}' if you mean the driver's disk."
        )
    misspelt = _MISSPELT_MOUNT.match(location)
    if misspelt and not Path(misspelt[0]).is_dir():
        raise AlignmentError(
            f"Option '{TABLE_OPTION}' is '{location}', but this driver has no folder '{misspelt[0]}'. Volumes of "
            f"Databricks are under /Volumes: write '/Volumes{location.removeprefix(misspelt[0])}', or create the "
            "folder if you mean one."
        )
    for mount in _MOUNTS:
        if location.startswith(f"{mount}/") and not Path(mount).is_dir():
            raise AlignmentError(
                f"Option '{TABLE_OPTION}' is '{location}', but this driver has no {mount}: the file system of "
                "Databricks is not mounted here. Give the URI of cloud storage (s3://, abfss://, gs://), or run "
                "where it is mounted."
            )


def check_is_location(text: str) -> None:
    """Checks that a text is not the name of a table in a catalog, which delta-rs does not know.

    Raises:
        AlignmentError: The text is such a name, and there is no folder with that name.
    """
    if catalog_name(text) is not None and not Path(text).exists():
        raise AlignmentError(
            f"'{text}' is the name of a table in a catalog, which only Spark can look up. Show the table with "
            "watermark_alignment.split_status(spark, name), or give the location that DESCRIBE DETAIL shows, if it can "
            "be read without the catalog."
        )


def has_hard_links(location: str, options: Mapping[str, str]) -> bool:
    """Returns whether delta-rs can commit safely at a location: it needs hard links for that.

    Args:
        location: A path or URI. For an object store, or a folder that is not writable, the result is true.
        options: The storage options. If :data:`RENAME` is among them, nothing is tried and the result is true.
    """
    folder = local_folder(location)
    if folder is None or RENAME in {name.lower() for name in options}:
        return True
    folder = next((path for path in (folder, *folder.parents) if path.is_dir()), folder)
    probe = folder / f".flip27-probe-{secrets.token_hex(8)}"
    try:
        probe.touch()
        os.link(probe, probe.with_suffix(".link"))
    except OSError as error:
        return not probe.exists() or error.errno not in _WITHOUT_LINKS
    finally:
        for path in (probe, probe.with_suffix(".link")):
            with suppress(OSError):
                path.unlink()
    return True


def renames_instead(location: str) -> str:
    """Returns the warning for a table on a file system without hard links."""
    return (
        f"The file system of the split-watermark table at '{location}' has no hard links, which make commits to a "
        f"Delta table safe. Commits are made by renaming files instead (storage option {RENAME}), which is safe as "
        "long as one source writes to the table. For a group of several sources put the table where all can write at "
        "the same time: S3, ADLS or GCS by their URIs, or a local disk of the driver."
    )


def remedy(location: str, cause: str) -> str:
    """Returns the remedy for an error of delta-rs, in sentences for the error message.

    Args:
        location: The location of the table.
        cause: The message of delta-rs.
    """
    if is_unknown_scheme(cause):
        return _SCHEMES
    if _UNKNOWN_FEATURES.search(cause):
        return _ANOTHER_WRITER
    if _DAMAGE.search(cause):
        return _RENEW
    for schemes, names in _CREDENTIALS.items():
        if location.lower().startswith(schemes):
            return f"The store was not reached, or refused the request. {_GRANTS} (of {names}), {_OTHERS}."
    if "os error 38" in cause or RENAME in cause:
        return f"The file system has no hard links. Set {TABLE_OPTION}.option.{RENAME} to true, or give another path."
    code = _OS_ERROR.search(cause)
    known = _NOT_HERE.get(int(code[1] or code[2])) if code is not None else None
    return known or f"Check that the driver can read and write at this location (option {TABLE_OPTION})."
