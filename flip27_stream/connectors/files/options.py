"""Options of the file source: Spark's, Delta's and Flink's names, where one of them has the option."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from flip27_stream.api import ReadLimits
from flip27_stream.connectors.files.backlog.listed_files import ModifiedFiles
from flip27_stream.connectors.files.delta.delta_columns import SchemaChange
from flip27_stream.connectors.files.delta.delta_log import DeltaLog
from flip27_stream.connectors.files.delta.delta_state import DeltaStart
from flip27_stream.connectors.files.delta.delta_times import parse_time
from flip27_stream.connectors.files.formats.format_options import FORMAT_OPTIONS
from flip27_stream.connectors.files.storage.delta_rs_options import for_arrow, for_delta_rs
from flip27_stream.connectors.files.storage.filesystem import Storage, locate
from flip27_stream.connectors.files.storage.glob import glob_regex
from flip27_stream.connectors.files.storage.listing import FileListing
from flip27_stream.connectors.files.storage.partition_folders import PartitionFolders
from flip27_stream.connectors.files.storage.store_parameters import OPTION_PREFIX
from flip27_stream.errors import OptionError
from flip27_stream.options.option_values import OptionValues
from watermark_alignment.options import check_known, parse_duration

FOLDER_OPTIONS: Final = (
    "basePath",
    "pathGlobFilter",
    "recursiveFileLookup",
    "source.path.regex-pattern",
    "files.modified",
)
DELTA_OPTIONS: Final = (
    "startingVersion",
    "startingTimestamp",
    "ignoreDeletes",
    "ignoreChanges",
    "skipChangeCommits",
    "files.schema-change",
)
_FORMAT_OPTIONS: Final = tuple(dict.fromkeys(name for names in FORMAT_OPTIONS.values() for name in names))

OPTION_NAMES: Final = (
    "path",
    "paths",
    "files.format",
    *FOLDER_OPTIONS,
    "source.monitor-interval",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "maxRowsPerTrigger",
    "minPartitions",
    "ignoreCorruptFiles",
    "ignoreMissingFiles",
    "failOnDataLoss",
    *_FORMAT_OPTIONS,
    *DELTA_OPTIONS,
)
"""Every option that has an effect, in its canonical spelling."""

REFUSED: Final = {
    "cleanSource": "files are never moved or deleted",
    "fileNameOnly": "a file is told from others by its whole path",
    "latestFirst": "files are read in the order of event time, or of modification time",
    "maxFileAge": "what was read is remembered without an age; see docs/files.md",
    "mergeSchema": "columns are those of .schema(...), or of one of the files",
    "readChangeFeed": "the change data feed of Delta tables is not read",
    "sourceArchiveDir": "files are never moved or deleted",
    "withEventTimeOrder": "files are read in event-time order with option scan.watermark.alignment.group",
}
"""Options of Spark's and Delta's sources that this one cannot follow, and why."""

_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_MOST_FILES: Final = 1000


@dataclass(frozen=True)
class FileOptions:
    """What the options say, checked.

    Attributes:
        format: one of the formats, or ``delta``.
        listing: which files are read; ``None`` for a Delta table.
        delta: the Delta table that is read.
        start: where reading of a Delta table begins.
        monitor_interval_ms: how often new files are looked for; ``None`` for never: what is there first is all.
        schema_change: what becomes of a query when the columns of its Delta table change.
        modified: what becomes of a file that changes after it was read.
        limits: of a micro-batch.
        max_rows: rows of a micro-batch.
        ignore_corrupt: damaged files are skipped.
        ignore_missing: files that are gone are skipped.
        fail_on_data_loss: whether it is an error that files may have come unseen, or versions of a table are gone.
        format_options: those that are the format's business.
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
    """Check options, whose names may be in any case.

    Raises:
        OptionError: one is unknown, missing or wrong.
    """
    given = {name.lower(): value for name, value in options.items()}
    values = OptionValues(given)
    _refuse(given)
    check_known(given, {name.lower(): name for name in OPTION_NAMES}, (OPTION_PREFIX,))
    format_ = values.one_of("files.format", "parquet", {name: name for name in (*FORMAT_OPTIONS, "delta")})
    _refuse_without(values, format_ != "delta", FOLDER_OPTIONS, "files of folders, not with a Delta table")
    _refuse_without(values, format_ == "delta", DELTA_OPTIONS, "files.format delta")
    storage = {n.removeprefix(OPTION_PREFIX): v for n, v in given.items() if n.startswith(OPTION_PREFIX)}
    paths = _paths(values)
    return FileOptions(
        format=format_,
        listing=None if format_ == "delta" else _listing(values, format_, paths, storage),
        delta=_delta(paths, storage) if format_ == "delta" else None,
        start=_start(values),
        monitor_interval_ms=values.parsed(
            "source.monitor-interval",
            lambda name, text: parse_duration(text, name) or None,
            FileOptions.monitor_interval_ms,
        ),
        schema_change=values.one_of(
            "files.schema-change", FileOptions.schema_change, {word.value: word for word in SchemaChange}
        ),
        modified=values.one_of(
            "files.modified", FileOptions.modified, {word.value: word for word in ModifiedFiles}
        ),
        limits=ReadLimits(
            max_files=values.whole("maxFilesPerTrigger", _MOST_FILES),
            max_bytes=values.parsed("maxBytesPerTrigger", _bytes, None),
            min_tasks=values.whole("minPartitions", None),
            divide=True,
        ),
        max_rows=values.whole("maxRowsPerTrigger", None),
        ignore_corrupt=values.boolean("ignoreCorruptFiles", False),
        ignore_missing=values.boolean("ignoreMissingFiles", False),
        fail_on_data_loss=values.boolean("failOnDataLoss", True),
        format_options={n.lower(): given[n.lower()] for n in _FORMAT_OPTIONS if values.has(n)},
    )


def _refuse(given: Mapping[str, str]) -> None:
    for name, reason in REFUSED.items():
        if name.lower() in given:
            raise OptionError(f"Option '{name}' is not supported: {reason}. Leave it out.")


def _refuse_without(values: OptionValues, allowed: bool, names: tuple[str, ...], what: str) -> None:
    for name in names:
        if values.has(name) and not allowed:
            raise OptionError(f"Option '{name}' goes with {what}. Leave it out.")


def _paths(values: OptionValues) -> list[str]:
    """What ``load`` was given: one path, or several as a JSON array."""

    def several(name: str, text: str) -> list[str]:
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise OptionError.of(name, text, 'Expected a JSON array such as ["/data/a", "/data/b"].')
        return found

    path = values.text("path")
    none: list[str] = []
    paths = [*values.parsed("paths", several, none), *([path] if path is not None else [])]
    if not paths or not all(one.strip() for one in paths):
        raise OptionError("Option 'path' must be set: the files, folders or globs to read, or a Delta table.")
    return paths


def _listing(values: OptionValues, format_: str, paths: list[str], storage: Mapping[str, str]) -> FileListing:
    located = [_located(path, storage) for path in paths]
    if len({place for place, _ in located}) > 1:
        raise OptionError(
            f"Option 'paths' has paths of several file systems: {', '.join(paths)}. Read each with a query of its own."
        )
    inside = tuple(path for _, path in located)
    return FileListing(
        storage=located[0][0],
        paths=inside,
        partitions=None if format_ == "text" else _partitions(values, located[0][0], inside, storage),
        name_glob=values.parsed("pathGlobFilter", _glob, None),
        path_regex=values.parsed("source.path.regex-pattern", _regex, None),
        recursive=values.boolean("recursiveFileLookup", True),
    )


def _partitions(
    values: OptionValues, place: Storage, paths: tuple[str, ...], storage: Mapping[str, str]
) -> PartitionFolders:
    """What finds partition columns: below ``basePath``, or below the paths that are read."""
    base = values.text("basePath")
    if base is None:
        return PartitionFolders(paths)
    found, inside = _located(base, storage)
    below = f"{inside.rstrip('/')}/"
    if found != place or not all(f"{path.rstrip('/')}/".startswith(below) for path in paths):
        raise OptionError.of("basePath", base, f"Expected a folder that has all of {', '.join(paths)} in it.")
    return PartitionFolders((inside,))


def _delta(paths: list[str], storage: Mapping[str, str]) -> DeltaLog:
    places = [_located(path, for_arrow(path.partition(":")[0].lower(), storage)) for path in paths]
    if len(paths) > 1:
        raise OptionError(
            f"With files.format delta there is one path, that of the table, not {', '.join(paths)}."
        )
    place, path = places[0]
    if not place.uri and _ESCAPE.search(path):
        raise OptionError.of(
            "path", path, "Of a Delta table it must have no escape such as %20: delta-rs decodes it."
        )
    return DeltaLog(path if not place.uri else paths[0], place, path, for_delta_rs(storage))


def _located(path: str, storage: Mapping[str, str]) -> tuple[Storage, str]:
    place, inside = locate(path, storage)
    if storage and not place.uri:
        raise OptionError(
            f"Option '{OPTION_PREFIX}{min(storage)}' is for object stores and the like; the local file system, where "
            f"'{path}' is, has no such parameters. Leave it out."
        )
    return place, inside


def _start(values: OptionValues) -> DeltaStart:
    version = values.text("startingVersion")
    if version is not None and values.has("startingTimestamp"):
        raise OptionError("Only one of the options 'startingVersion' and 'startingTimestamp' can be set.")
    latest = version is not None and version.strip().lower() == "latest"
    return DeltaStart(
        version=None if latest else values.parsed("startingVersion", _version, None),
        latest=latest,
        timestamp=values.parsed(
            "startingTimestamp", lambda name, text: parse_time(name, text).isoformat(), None
        ),
        ignore_deletes=values.boolean("ignoreDeletes", False),
        ignore_changes=values.boolean("ignoreChanges", False),
        skip_change_commits=values.boolean("skipChangeCommits", False),
    )


def _version(name: str, text: str) -> int | None:
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII):
        raise OptionError.of(name, text, "Allowed: the number of a version, or latest.")
    return int(text)


def _bytes(name: str, text: str) -> int | None:
    """As Delta has it: a number, or one with a unit such as ``10g``, in powers of 1024."""
    parts = re.fullmatch(r"(\d{1,18})\s*([kmgt]?)b?", text.lower(), re.ASCII)
    if parts is None or not int(parts[1]):
        raise OptionError.of(name, text, "Allowed: a number of bytes, or one with a unit: 64m, 10g.")
    return int(parts[1]) << 10 * " kmgt".index(parts[2] or " ")


def _compiled(pattern: Callable[[str], str], allowed: str) -> Callable[[str, str], str | None]:
    def check(name: str, text: str) -> str | None:
        try:
            re.compile(pattern(text))
        except re.error as error:
            raise OptionError.of(name, text, f"Expected {allowed}: {error}.") from error
        return text

    return check


_glob = _compiled(glob_regex, "a glob such as *.json")
_regex = _compiled(str, "a regular expression for whole paths")
