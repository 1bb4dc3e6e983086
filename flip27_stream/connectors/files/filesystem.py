"""File systems by URI: local paths and the object stores that Arrow knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from flip27_stream.errors import OptionError

OPTION_PREFIX: Final = "files.storage.option."
"""What follows it is a parameter of Arrow's file system, or of delta-rs for a Delta table."""

_S3_NAMES: Final = {
    "aws_access_key_id": "access_key",
    "aws_secret_access_key": "secret_key",
    "aws_session_token": "session_token",
    "aws_region": "region",
    "aws_endpoint_url": "endpoint_override",
}
_ALLOW_HTTP: Final = "aws_allow_http"
_FLAGS: Final = {"true": True, "false": False}
_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "request_timeout": float,
    "connect_timeout": float,
    "retry_time_limit": lambda seconds: timedelta(seconds=float(seconds)),
    "replication": int,
    "buffer_size": int,
    "default_block_size": int,
}


@dataclass(frozen=True)
class Storage:
    """Where files are, as far as it can be said without asking anybody; picklable.

    Attributes:
        uri: scheme and authority, such as ``s3://bucket``; ``""`` for the local file system.
        options: parameters of the file system; may be secret, so never shown.
    """

    uri: str = ""
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def filesystem(self) -> fs.FileSystem:
        """The file system; one per process.

        Raises:
            OptionError: Arrow has none for the scheme, or refuses a parameter.
        """
        return _filesystem(self)


def locate(path: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    """The storage of a path or URI, and the path in it as its file system knows it.

    Raises:
        OptionError: there is no path in it.
    """
    parts = urlsplit(
        path.replace("?", "%3F").replace("#", "%23")
    )  # in names of files they are no more than that
    if "://" not in path and not path.startswith("file:"):
        return Storage(options=tuple(sorted(options.items()))), os.path.abspath(path)
    authority, inside = parts.netloc, unquote(parts.path)
    uri = "" if parts.scheme == "file" else f"{parts.scheme}://{authority}"
    storage = Storage(uri, tuple(sorted(options.items())))
    if parts.scheme in ("file", "hdfs", "viewfs"):
        return storage, inside.rstrip("/") or "/"
    bucket = authority.split("@")[0]
    if not bucket:
        raise OptionError.of("path", path, "Expected a local path, or a URI such as s3://bucket/folder.")
    return storage, f"{bucket}{inside}".rstrip("/")


def known_to_arrow(options: Mapping[str, str]) -> dict[str, str]:
    """Of the storage options of delta-rs those that Arrow's file system for the same store has, too."""
    return {n: v for n, v in options.items() if not n.startswith("aws_") or n in (*_S3_NAMES, _ALLOW_HTTP)}


@lru_cache(maxsize=64)
def _filesystem(storage: Storage) -> fs.FileSystem:
    if not storage.uri:
        return fs.LocalFileSystem()
    parts = urlsplit(storage.uri)
    make = _MAKERS.get(parts.scheme)
    try:
        if make is None or (not storage.options and parts.scheme not in ("s3a", "s3n")):
            return fs.FileSystem.from_uri(storage.uri)[0]
        return make(parts.netloc, {name: _typed(name, value) for name, value in storage.options})
    except (TypeError, ValueError, pa.ArrowException, OSError) as error:
        raise OptionError(
            f"Arrow makes no file system of '{storage.uri}' with the options "
            f"{[f'{OPTION_PREFIX}{name}' for name, _ in storage.options]}: {error}. Their names are those of "
            "the parameters of pyarrow.fs.S3FileSystem, GcsFileSystem, AzureFileSystem and HadoopFileSystem."
        ) from error


def _typed(name: str, value: str) -> Any:
    """What Arrow takes for an option: keys may look like numbers, so only what is one is made one."""
    return _PARSERS[name](value) if name in _PARSERS else _FLAGS.get(value, value)


def _s3(authority: str, options: dict[str, Any]) -> fs.FileSystem:
    named = {_S3_NAMES.get(name, name): value for name, value in options.items()}
    if named.pop(_ALLOW_HTTP, False) is True:
        named["scheme"] = "http"
    return fs.S3FileSystem(**named)


def _gcs(authority: str, options: dict[str, Any]) -> fs.FileSystem:
    return fs.GcsFileSystem(**options)


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
