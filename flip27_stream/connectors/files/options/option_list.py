"""The list of the options of the file source.

Names are those of Spark, Delta or Flink, if one of them has the option.
"""

from __future__ import annotations

import re
from typing import Any, Final

from flip27_stream.connectors.files.backlog.listed_files import ModifiedFiles
from flip27_stream.connectors.files.delta.delta_columns import SchemaChange
from flip27_stream.connectors.files.delta.delta_times import parse_time
from flip27_stream.connectors.files.options.format_options import FORMAT_OPTIONS
from flip27_stream.connectors.files.storage.glob import RULE, glob_regex
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import (
    BOOLEAN,
    DURATION_OR_NEVER,
    TEXT,
    any_text,
    json_value,
    one_of,
    whole,
    words,
)
from flip27_stream.options.option import Kind, Option, canonical_names


def _paths(text: str, option: str) -> list[str]:
    found = json_value(text)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise OptionError.of(option, text, 'Expected a JSON array such as ["/data/a", "/data/b"].')
    return found


def _bytes(text: str, option: str) -> int:
    """Returns the number of bytes of a text such as ``10g``. Units are powers of 1024, as in Delta."""
    parts = re.fullmatch(r"(\d{1,18})\s*([kmgt]?)b?", text.strip().lower(), re.ASCII)
    if parts is None or not int(parts[1]):
        raise OptionError.of(option, text, "Allowed: a number of bytes, also with a unit: 64m, 10g.")
    return int(parts[1]) << 10 * " kmgt".index(parts[2] or " ")


def _version(text: str, option: str) -> int | None:
    """Returns the version of a table, or ``None`` for ``latest``."""
    if text.strip().lower() == "latest":
        return None
    if not re.fullmatch(r"\d{1,18}", text.strip(), re.ASCII):
        raise OptionError.of(option, text, "Allowed: the number of a version, or latest.")
    return int(text)


def _iso_time(text: str, option: str) -> str:
    return parse_time(text, option).isoformat()


def _glob(text: str, option: str) -> str:
    glob = TEXT.parse(text, option)
    try:
        re.compile(glob_regex(glob))
    except re.error as error:
        raise OptionError.of(option, text, f"Expected a glob such as *.json: {RULE}.") from error
    return glob


def _regex(text: str, option: str) -> str:
    pattern = TEXT.parse(text, option)
    try:
        re.compile(pattern)
    except re.error as error:
        allowed = "Expected a regular expression for whole paths"
        raise OptionError.of(option, text, f"{allowed}: {error}.") from error
    return pattern


PATH: Final = Option(
    "path",
    any_text("file, folder, glob or Delta table, local or URI"),
    None,
    "The files, folder or table to read. `load(path)` sets this option.",
)
PATHS: Final = Option(
    "paths",
    Kind("JSON array", _paths),
    None,
    "Several paths to read. `load([path, ...])` sets this option.",
)
FORMAT: Final = Option(
    "files.format",
    words(*FORMAT_OPTIONS, "delta"),
    "parquet",
    "The format of the files.",
)
BASE_PATH: Final = Option(
    "basePath",
    any_text("folder that has all paths in it"),
    None,
    "The folder below which names of folders such as `dt=2026-11-01` are partition columns. Without it these are the "
    "folders below the paths that are read.",
)
NAME_GLOB: Final = Option(
    "pathGlobFilter",
    Kind("glob", _glob),
    None,
    "Only files whose name it matches.",
)
RECURSIVE: Final = Option(
    "recursiveFileLookup",
    BOOLEAN,
    "true",
    "Read files of subfolders, too.",
)
PATH_REGEX: Final = Option(
    "source.path.regex-pattern",
    Kind("Python regular expression", _regex),
    None,
    "Only files whose whole path it matches.",
)
MODIFIED: Final = Option(
    "files.modified",
    one_of({word.value: word for word in ModifiedFiles}),
    "ignore",
    "What happens to a file that changed after it was read. `ignore`: it is not read again, with a warning; `read`: "
    "it is read again; `fail`: the query fails.",
)
MONITOR_INTERVAL: Final = Option(
    "source.monitor-interval",
    DURATION_OR_NEVER,
    "1 s",
    "How often new files are looked for. `0`: never; only the files of the first listing are read.",
)
MAX_FILES: Final = Option(
    "maxFilesPerTrigger",
    whole(),
    "1000",
    "How many files a micro-batch reads at most.",
)
MAX_BYTES: Final = Option(
    "maxBytesPerTrigger",
    Kind("whole number from 1, also with a unit: `64m`, `10g`", _bytes),
    None,
    "How many bytes a micro-batch reads at most, to a row group or a megabyte of lines.",
)
MAX_ROWS: Final = Option(
    "maxRowsPerTrigger",
    whole(),
    None,
    "How many rows a micro-batch reads at most.",
)
MIN_PARTITIONS: Final = Option(
    "minPartitions",
    whole(),
    None,
    "How many tasks a micro-batch has at least. Without this option it has as many as run at the same time.",
)
IGNORE_CORRUPT: Final = Option(
    "ignoreCorruptFiles",
    BOOLEAN,
    "false",
    "Skip files that are damaged.",
)
IGNORE_MISSING: Final = Option(
    "ignoreMissingFiles",
    BOOLEAN,
    "false",
    "Skip files that were deleted or overwritten before they were read.",
)
FAIL_ON_DATA_LOSS: Final = Option(
    "failOnDataLoss",
    BOOLEAN,
    "true",
    "Fail if files may have been added unnoticed; with Delta, if versions that must still be read are no longer in "
    "the log.",
)
STARTING_VERSION: Final = Option(
    "startingVersion",
    Kind("number or `latest`", _version),
    None,
    "Delta: read only the rows that this version and later versions added.",
)
STARTING_TIMESTAMP: Final = Option(
    "startingTimestamp",
    Kind("date, or date and time in ISO 8601's form, UTC without a zone", _iso_time),
    None,
    "Delta: read only the rows of the first version that was committed at this time or later, and of later versions.",
)
IGNORE_DELETES: Final = Option(
    "ignoreDeletes",
    BOOLEAN,
    "false",
    "Delta: skip commits that only remove rows.",
)
IGNORE_CHANGES: Final = Option(
    "ignoreChanges",
    BOOLEAN,
    "false",
    "Delta: read again the files that commits rewrite.",
)
SKIP_CHANGE_COMMITS: Final = Option(
    "skipChangeCommits",
    BOOLEAN,
    "false",
    "Delta: skip commits that remove or change rows, also if they add rows.",
)
SCHEMA_CHANGE: Final = Option(
    "files.schema-change",
    one_of({word.value: word for word in SchemaChange}),
    "fail",
    "Delta: what happens when the columns of the table no longer fit those of the query: `fail` ends the query, "
    "`ignore` goes on with the columns of the query and logs a warning.",
)

FOLDER_OPTIONS: Final[tuple[Option[Any], ...]] = (BASE_PATH, NAME_GLOB, RECURSIVE, PATH_REGEX, MODIFIED)
DELTA_OPTIONS: Final[tuple[Option[Any], ...]] = (
    STARTING_VERSION,
    STARTING_TIMESTAMP,
    IGNORE_DELETES,
    IGNORE_CHANGES,
    SKIP_CHANGE_COMMITS,
    SCHEMA_CHANGE,
)
LINE_OPTIONS: Final = tuple(
    dict.fromkeys(option for options in FORMAT_OPTIONS.values() for option in options)
)

OPTIONS: Final[tuple[Option[Any], ...]] = (
    PATH,
    PATHS,
    FORMAT,
    *FOLDER_OPTIONS,
    MONITOR_INTERVAL,
    MAX_FILES,
    MAX_BYTES,
    MAX_ROWS,
    MIN_PARTITIONS,
    IGNORE_CORRUPT,
    IGNORE_MISSING,
    FAIL_ON_DATA_LOSS,
    *LINE_OPTIONS,
    *DELTA_OPTIONS,
)
"""All options that have an effect."""

_ALL_CHANGES: Final = "a changed schema ends the query, which goes on after load() is called again"

REFUSED: Final = {
    "allowSourceColumnDrop": _ALL_CHANGES,
    "allowSourceColumnRename": _ALL_CHANGES,
    "allowSourceColumnTypeChange": _ALL_CHANGES,
    "cleanSource": "files are never moved or deleted",
    "excludeRegex": "files of a Delta table cannot be left out by their names",
    "fileNameOnly": "files are distinguished by their whole paths",
    "ignoreFileDeletion": "its newer name is ignoreChanges",
    "latestFirst": "files are read in the order of event time, or of modification time",
    "maxFileAge": "the record of read files has no age limit; see docs/files.md",
    "mergeSchema": "columns are those of .schema(...), or of one of the files",
    "readChangeData": "the change data feed of Delta tables is not read",
    "readChangeFeed": "the change data feed of Delta tables is not read",
    "schemaLocation": _ALL_CHANGES,
    "schemaTrackingLocation": _ALL_CHANGES,
    "sourceArchiveDir": "files are never moved or deleted",
    "withEventTimeOrder": "files are read in event-time order with option scan.watermark.alignment.group",
}
"""Options of Spark's and Delta's sources that are not supported, with the reasons."""

SUPPORTED_OPTIONS: Final = canonical_names(OPTIONS)
"""The canonical spelling of the options that have an effect, by their names in lower case."""

KNOWN_OPTIONS: Final = SUPPORTED_OPTIONS | {name.lower(): name for name in REFUSED}
"""The canonical spelling of every name that is not a spelling mistake, by its name in lower case."""
