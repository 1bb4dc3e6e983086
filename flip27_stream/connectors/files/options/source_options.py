"""The options of the file source, after they are checked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flip27_stream.api import ReadLimits
from flip27_stream.connectors.files.backlog.listed_files import ModifiedFiles
from flip27_stream.connectors.files.delta.delta_columns import SchemaChange
from flip27_stream.connectors.files.delta.delta_log import DeltaLog
from flip27_stream.connectors.files.delta.delta_state import DeltaStart
from flip27_stream.connectors.files.options.format_options import refuse_options_of_others
from flip27_stream.connectors.files.options.option_list import (
    BASE_PATH,
    DELTA_OPTIONS,
    FAIL_ON_DATA_LOSS,
    FOLDER_OPTIONS,
    FORMAT,
    IGNORE_CHANGES,
    IGNORE_CORRUPT,
    IGNORE_DELETES,
    IGNORE_MISSING,
    LINE_OPTIONS,
    MAX_BYTES,
    MAX_FILES,
    MAX_ROWS,
    MIN_PARTITIONS,
    MODIFIED,
    MONITOR_INTERVAL,
    NAME_GLOB,
    PATH,
    PATH_REGEX,
    PATHS,
    RECURSIVE,
    REFUSED,
    SCHEMA_CHANGE,
    SKIP_CHANGE_COMMITS,
    STARTING_TIMESTAMP,
    STARTING_VERSION,
    SUPPORTED_OPTIONS,
)
from flip27_stream.connectors.files.storage.delta_rs_options import for_arrow, for_delta_rs
from flip27_stream.connectors.files.storage.filesystem import Storage, locate
from flip27_stream.connectors.files.storage.listing import FileListing
from flip27_stream.connectors.files.storage.partition_folders import PartitionFolders
from flip27_stream.connectors.files.storage.store_parameters import OPTION_PREFIX
from flip27_stream.errors import OptionError
from flip27_stream.options.given import given_options
from flip27_stream.options.known_options import check_known
from flip27_stream.options.option import Option

_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_CATALOG_NAME: Final = re.compile(r"(?:[\w-]+|`[^`/]+`)(?:\.(?:[\w-]+|`[^`/]+`)){1,2}")
_MOST_FILES: Final = 1000


@dataclass(frozen=True)
class FileOptions:
    """The checked options of a file source.

    Attributes:
        format: The name of a file format, or ``delta``.
        listing: Lists the files to read; ``None`` for a Delta table.
        delta: The log of the Delta table to read; ``None`` for folders.
        start: The version at which reading of a Delta table begins.
        monitor_interval_ms: The interval (ms) at which new files are looked for; ``None`` to read only the files that
            exist when reading begins.
        schema_change: The action if the columns of the Delta table no longer fit those of the query.
        modified: The action if a file changes after it was read.
        limits: The limits of a micro-batch.
        max_rows: The greatest number of rows of a micro-batch.
        ignore_corrupt: Whether damaged files are skipped.
        ignore_missing: Whether files that no longer exist are skipped.
        fail_on_data_loss: Whether it is an error if files may have been added unnoticed or versions of a table are
            gone.
        format_options: The options of the file format.
    """

    format: str
    listing: FileListing | None = None
    delta: DeltaLog | None = None
    start: DeltaStart = field(default_factory=DeltaStart)
    monitor_interval_ms: int | None = 1000
    schema_change: SchemaChange = SchemaChange.FAIL
    modified: ModifiedFiles = ModifiedFiles.IGNORE
    limits: ReadLimits = field(default_factory=lambda: ReadLimits(max_files=_MOST_FILES, divide=True))
    max_rows: int | None = None
    ignore_corrupt: bool = False
    ignore_missing: bool = False
    fail_on_data_loss: bool = True
    format_options: Mapping[str, str] = field(default_factory=dict)


def parse_file_options(options: Mapping[str, str]) -> FileOptions:
    """Checks options, whose names can be in any case, and returns their values.

    Raises:
        OptionError: An option is unknown, missing or wrong.
    """
    given = given_options(options)
    _refuse(given)
    check_known(given, SUPPORTED_OPTIONS, (OPTION_PREFIX,))
    format_ = FORMAT.require(given)
    _refuse_without(given, format_ != "delta", FOLDER_OPTIONS, "files of folders, not with a Delta table")
    _refuse_without(given, format_ == "delta", DELTA_OPTIONS, "files.format delta")
    refuse_options_of_others(format_, given)
    storage = {n.removeprefix(OPTION_PREFIX): v for n, v in given.items() if n.startswith(OPTION_PREFIX)}
    paths = _paths(given)
    return FileOptions(
        format=format_,
        listing=None if format_ == "delta" else _listing(given, format_, paths, storage),
        delta=_delta(paths, storage) if format_ == "delta" else None,
        start=_start(given),
        monitor_interval_ms=MONITOR_INTERVAL.get(given),
        schema_change=SCHEMA_CHANGE.require(given),
        modified=MODIFIED.require(given),
        limits=ReadLimits(
            max_files=MAX_FILES.require(given),
            max_bytes=MAX_BYTES.get(given),
            min_tasks=MIN_PARTITIONS.get(given),
            divide=True,
        ),
        max_rows=MAX_ROWS.get(given),
        ignore_corrupt=IGNORE_CORRUPT.require(given),
        ignore_missing=IGNORE_MISSING.require(given),
        fail_on_data_loss=FAIL_ON_DATA_LOSS.require(given),
        format_options={option.key: given[option.key] for option in LINE_OPTIONS if option.is_given(given)},
    )


def _refuse(given: Mapping[str, str]) -> None:
    for name, reason in REFUSED.items():
        if name.lower() in given:
            raise OptionError(f"Option '{name}' is not supported: {reason}. Leave it out.")


def _refuse_without(
    given: Mapping[str, str], allowed: bool, options: tuple[Option[Any], ...], what: str
) -> None:
    for option in options:
        if option.is_given(given) and not allowed:
            raise OptionError(f"Option '{option.name}' goes with {what}. Leave it out.")


def _paths(given: Mapping[str, str]) -> list[str]:
    """Returns the paths that were given to ``load``: one path, or several as a JSON array."""
    path = PATH.get(given)
    paths = [*(PATHS.get(given) or ()), *([path] if path is not None else [])]
    if not paths or not all(one.strip() for one in paths):
        raise OptionError("Option 'path' must be set: the files, folders or globs to read, or a Delta table.")
    return paths


def _listing(
    given: Mapping[str, str], format_: str, paths: list[str], storage: Mapping[str, str]
) -> FileListing:
    located = [_located(path, storage) for path in paths]
    if len({place for place, _ in located}) > 1:
        raise OptionError(
            f"Option 'paths' has paths of several file systems: {', '.join(paths)}. Read each of them with its own "
            "query."
        )
    inside = tuple(path for _, path in located)
    return FileListing(
        storage=located[0][0],
        paths=inside,
        partitions=None if format_ == "text" else _partitions(given, located[0][0], inside, storage),
        name_glob=NAME_GLOB.get(given),
        path_regex=PATH_REGEX.get(given),
        recursive=RECURSIVE.require(given),
    )


def _partitions(
    given: Mapping[str, str], place: Storage, paths: tuple[str, ...], storage: Mapping[str, str]
) -> PartitionFolders:
    """Returns the finder of partition columns in names of folders.

    Partition folders are those below option ``basePath``, or by default below the paths that are read.
    """
    base = BASE_PATH.get(given)
    if base is None:
        return PartitionFolders(paths)
    found, inside = _located(base, storage, BASE_PATH.name)
    below = f"{inside.rstrip('/')}/"
    if found != place or not all(f"{path.rstrip('/')}/".startswith(below) for path in paths):
        raise OptionError.of("basePath", base, f"Expected a folder that has all of {', '.join(paths)} in it.")
    return PartitionFolders((inside,))


def _delta(paths: list[str], storage: Mapping[str, str]) -> DeltaLog:
    for path in paths:
        if _CATALOG_NAME.fullmatch(path) and not os.path.exists(path):
            raise OptionError(
                f"Option 'path' is {path!r}, and there is no such path. If it is the name of a table in a catalog, "
                f"give the path that flip27_stream.table_location(spark, {path!r}) returns."
            )
    places = [_located(path, for_arrow(path.partition(":")[0].lower(), storage)) for path in paths]
    if len(paths) > 1:
        raise OptionError(
            f"With files.format delta there is one path, that of the table, not {', '.join(paths)}."
        )
    place, path = places[0]
    if not place.uri and _ESCAPE.search(path):
        raise OptionError.of(
            "path", path, "The path of a Delta table must have no escape such as %20: delta-rs decodes it."
        )
    return DeltaLog(path if not place.uri else paths[0], place, path, for_delta_rs(storage))


def _located(path: str, storage: Mapping[str, str], option: str = PATH.name) -> tuple[Storage, str]:
    place, inside = locate(path, storage, option)
    if storage and not place.uri:
        raise OptionError(
            f"Option '{OPTION_PREFIX}{min(storage)}' is for object stores only; the local file system, where "
            f"'{path}' is, has no such parameters. Leave it out."
        )
    return place, inside


def _start(given: Mapping[str, str]) -> DeltaStart:
    if STARTING_VERSION.is_given(given) and STARTING_TIMESTAMP.is_given(given):
        raise OptionError("Only one of the options 'startingVersion' and 'startingTimestamp' can be set.")
    version = STARTING_VERSION.get(given)
    return DeltaStart(
        version=version,
        latest=STARTING_VERSION.is_given(given) and version is None,
        timestamp=STARTING_TIMESTAMP.get(given),
        ignore_deletes=IGNORE_DELETES.require(given),
        ignore_changes=IGNORE_CHANGES.require(given),
        skip_change_commits=SKIP_CHANGE_COMMITS.require(given),
    )
