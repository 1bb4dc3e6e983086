"""File systems by URI: the local file system and the object stores that Arrow supports."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from flip27_stream.connectors.files.storage.storage_errors import storage_error
from flip27_stream.connectors.files.storage.store_parameters import OPTION_PREFIX, S3_NAMES, typed
from flip27_stream.errors import OptionError
from flip27_stream.local_calls import answered
from flip27_stream.options.dbfs import on_driver

T = TypeVar("T")

_URI: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?=/)(?://(?P<authority>[^/]*))?(?P<path>/.*)?", re.DOTALL
)
_BEFORE_AT: Final = re.compile(r"(:/+).*@", re.DOTALL)
_HADOOP: Final = ("hdfs", "viewfs")
_AZURE: Final = ("abfs", "abfss")
_OF_CATALOGS: Final = (
    "For a table of a catalog give the path and the options that flip27_stream.table_location(spark, name) "
    "returns."
)


@dataclass(frozen=True)
class Storage:
    """The description of a file system. It is picklable, and made without access to the file system.

    Attributes:
        uri: Scheme and authority, such as ``s3://bucket``; empty for the local file system.
        options: The parameters of the file system. They can be secret, so they are never shown.
    """

    uri: str = ""
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def filesystem(self) -> fs.FileSystem:
        """Returns the file system; a process has one object for each storage.

        Raises:
            OptionError: Arrow has no file system for the scheme, or refuses a parameter.
        """
        return _filesystem(self)

    def shown(self, path: str) -> str:
        """Returns a path in this file system as users write it: as a URI, or as it is if the system is the local one.

        In a store, the path begins with the bucket or container, which the URI of the storage has, too.
        """
        if not self.uri or self.uri.partition(":")[0] in _HADOOP:
            return f"{self.uri}{path}"
        _, slash, inside = path.partition("/")
        return f"{self.uri}{slash}{inside}"

    def answered(self, work: Callable[[], T], what: str) -> T:
        """Returns the result of ``work``, which uses this file system; with a time limit for the local file system.

        Raises:
            UnreachableError: The local file system does not answer; see :func:`local_calls.answered`.
            Exception: Any error that ``work`` raises.
        """
        return work() if self.uri else answered(work, what)


def locate(path: str, options: Mapping[str, str], option: str = "path") -> tuple[Storage, str]:
    """Returns the storage of a path or URI, and the path in its file system.

    A path that begins with a scheme and a slash (``hdfs:/data``) is a URI, as in Hadoop. Escapes in a URI are decoded,
    except in a folder ``column=value``, since Spark writes escapes in names of such folders (``hour=00%3A00``).

    Args:
        path: A local path, or a URI. ``dbfs:/...`` is a path on this machine, as Databricks mounts it.
        options: The parameters of the file system.
        option: The name of the option that has the path, for errors.

    Raises:
        OptionError: The URI has no path, no file system exists for its scheme, or it contains credentials.
    """
    given = tuple(sorted(options.items()))
    uri = _URI.fullmatch(on_driver(path))
    if uri is None:
        return Storage(options=given), os.path.abspath(on_driver(path))
    scheme, authority = uri["scheme"].lower(), uri["authority"] or ""
    inside = "/".join(name if "=" in name else unquote(name) for name in (uri["path"] or "").split("/"))
    _check(path, scheme, authority, option)
    if not authority and not uri["path"]:
        raise _wrong(
            option,
            path,
            "The URI has no host and no path. Expected one such as s3://bucket/folder or hdfs:///folder.",
        )
    if scheme == "file":
        return Storage(options=given), inside.rstrip("/") or "/"
    storage = Storage(f"{scheme}://{authority}", given)
    if scheme in _HADOOP:
        return storage, inside.rstrip("/") or "/"
    bucket = authority.partition("@")[0] if scheme in _AZURE else authority.rpartition("@")[2]
    if not bucket:
        raise _wrong(
            option,
            path,
            "The URI has no bucket. Expected a local path, or a URI such as s3://bucket/folder.",
        )
    return storage, f"{bucket}{inside}".rstrip("/")


def _check(path: str, scheme: str, authority: str, option: str) -> None:
    """Checks the scheme and the authority of a URI.

    Raises:
        OptionError: No file system exists for the URI, or it contains credentials.
    """
    if scheme not in (*_MAKERS, "file"):
        advice = _OF_CATALOGS if scheme == "uc" else "Begin a local path with / or ./"
        raise _wrong(
            option,
            path,
            f"There is no file system for '{scheme}:'. Supported are {', '.join(('file', *_MAKERS))}. {advice}",
        )
    if scheme == "file" and authority not in ("", "localhost"):
        raise _wrong(option, path, "Expected a path on this machine, such as file:///data.")
    if _has_credentials(scheme, authority):
        raise _wrong(
            option,
            path,
            "The path contains credentials, which Spark would show with the path. Leave them out, and give "
            f"them as options, such as {OPTION_PREFIX}access_key and {OPTION_PREFIX}secret_key.",
        )


def _has_credentials(scheme: str, authority: str) -> bool:
    """Returns whether a URI has more before an ``@`` than a user, a container, or Arrow's word ``anonymous``.

    A key can have a slash in it. Then the ``@`` is not in the authority, but a colon is, which no bucket's name has.
    """
    who = authority.rpartition("@")[0]
    if scheme in _HADOOP:
        return ":" in who
    return ":" in authority or (scheme not in _AZURE and who not in ("", "anonymous"))


def _wrong(option: str, path: str, allowed: str) -> OptionError:
    """Returns the error for a wrong path, without the part that may be secret."""
    return OptionError.of(option, _BEFORE_AT.sub(r"\1...@", path), allowed)


@lru_cache(maxsize=64)
def _filesystem(storage: Storage) -> fs.FileSystem:
    if not storage.uri:
        return fs.LocalFileSystem()
    parts = urlsplit(storage.uri)
    make = _MAKERS.get(parts.scheme)
    try:
        if make is None or (parts.netloc and not storage.options and parts.scheme not in ("s3a", "s3n")):
            return fs.FileSystem.from_uri(storage.uri)[0]
        return make(parts.netloc, {name: typed(name, value) for name, value in storage.options})
    except OptionError:
        raise
    except OSError as error:
        raise storage_error(
            f"Arrow cannot reach the store '{storage.uri}' (option 'path')", error, storage.uri
        ) from error
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise OptionError(
            f"Arrow cannot create a file system for '{storage.uri}' with the options "
            f"{[f'{OPTION_PREFIX}{name}' for name, _ in storage.options]}: {error}. The names must be those of "
            "the parameters of pyarrow.fs.S3FileSystem, GcsFileSystem, AzureFileSystem and HadoopFileSystem."
        ) from error


def _s3(authority: str, options: dict[str, Any]) -> fs.FileSystem:
    named = {S3_NAMES.get(name, name): value for name, value in options.items()}
    if named.pop("allow_http", False) is True:
        named["scheme"] = "http"
    return fs.S3FileSystem(**named)


def _gcs(authority: str, options: dict[str, Any]) -> fs.FileSystem:
    nobody = {"anonymous": True} if authority.startswith("anonymous@") else {}
    return fs.GcsFileSystem(**{**nobody, **options})


def _azure(authority: str, options: dict[str, Any]) -> fs.FileSystem:
    account = authority.partition("@")[2].split(".")[0]
    return fs.AzureFileSystem(**{"account_name": account, **options})


def _hadoop(authority: str, options: dict[str, Any]) -> fs.FileSystem:
    host, _, port = authority.partition(":")
    return fs.HadoopFileSystem(host or "default", int(port or 0), **options)


_MAKERS: Final[Mapping[str, Callable[[str, dict[str, Any]], fs.FileSystem]]] = {
    "s3": _s3,
    "s3a": _s3,
    "s3n": _s3,
    "gs": _gcs,
    "gcs": _gcs,
    "abfs": _azure,
    "abfss": _azure,
    "hdfs": _hadoop,
    "viewfs": _hadoop,
}
