"""The source of files and Delta tables."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from flip27_stream.api import (
    Boundedness,
    ReadLimits,
    Source,
    SourceReaderContext,
    SplitEnumeratorContext,
    WatermarkStrategy,
)
from flip27_stream.connectors.files.backlog.backlog import Backlog
from flip27_stream.connectors.files.backlog.listed_files import ListedFiles
from flip27_stream.connectors.files.backlog.processed_files import ProcessedFiles, ProcessedFilesState
from flip27_stream.connectors.files.delta.delta_backlog import DeltaFiles
from flip27_stream.connectors.files.delta.delta_columns import ReadColumns
from flip27_stream.connectors.files.delta.delta_state import DeltaState
from flip27_stream.connectors.files.formats.file_format import FileFormat
from flip27_stream.connectors.files.formats.partition_types import with_partition_columns
from flip27_stream.connectors.files.formats.schemas import spark_schema
from flip27_stream.connectors.files.formats.statistics import EventTimeOrder, FileStatistics
from flip27_stream.connectors.files.options.format_options import file_format
from flip27_stream.connectors.files.options.option_list import (
    KNOWN_OPTIONS,
    NAME_GLOB,
    PATH_REGEX,
    SUPPORTED_OPTIONS,
)
from flip27_stream.connectors.files.options.source_options import FileOptions, parse_file_options
from flip27_stream.connectors.files.planning.enumerator import EnumeratorOptions, FileSourceEnumerator
from flip27_stream.connectors.files.planning.enumerator_state import FilesState, FilesStateSerializer
from flip27_stream.connectors.files.reader import FileSourceReader
from flip27_stream.connectors.files.split import FileSplit, FileSplitSerializer
from flip27_stream.connectors.files.storage.filesystem import Storage
from flip27_stream.connectors.files.storage.store_parameters import OPTION_PREFIX
from flip27_stream.connectors.files.storage.watched_listing import WatchedListing
from flip27_stream.connectors.files.tolerance import Tolerance
from flip27_stream.errors import CorruptCheckpointError, OptionError

log = logging.getLogger(__name__)


class FileSource(Source[FileSplit, FilesState]):
    """A source of the files in folders, or of a Delta table (Flink ``FileSource``).

    Args:
        options: The options, with names in any case; see the options page.
        strategy: The event time of records. With alignment, files are read in the order of event time from the first
            file on. If none is given, the first plan passes the event time of the query to the source.
        bounded: Whether to read only the files or rows that exist when reading begins.
        schema: The columns to read; by default those of the Delta table, or of the first file by name.
        inferred: Whether ``schema`` is that default, found when the query was defined.

    Raises:
        OptionError: An option is unknown, missing or wrong.
    """

    split_serializer = FileSplitSerializer()
    enumerator_checkpoint_serializer = FilesStateSerializer()

    def __init__(
        self,
        options: Mapping[str, str],
        strategy: WatermarkStrategy | None = None,
        *,
        bounded: bool = False,
        schema: pa.Schema | None = None,
        inferred: bool = False,
    ) -> None:
        self._options = parse_file_options(options)
        file_format(self._data_format, self._options.format_options, schema)
        self._schema = schema
        self._inferred = inferred or schema is None
        aligned = strategy is not None and strategy.alignment is not None
        self._order = EventTimeOrder.of(strategy.timestamp_assigner) if strategy and aligned else None
        self._bounded = bounded or self._options.monitor_interval_ms is None

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def schema(self) -> pa.Schema:
        if self._schema is None:
            self._schema = infer_schema(self._options)
        return self._schema

    @property
    def fingerprint(self) -> str:
        """The kind and the places of the files. Checkpoints have this text, in which the bucket of a store is twice."""
        options = self._options
        if options.delta is not None:
            return f"Delta table {self.reads}"
        assert options.listing is not None
        return f"{options.format} files of {options.listing.storage.uri}{', '.join(options.listing.paths)}"

    @property
    def reads(self) -> str:
        options = self._options
        if options.delta is not None:
            return options.delta.uri
        assert options.listing is not None
        return ", ".join(map(options.listing.storage.shown, options.listing.paths))

    @property
    def read_limits(self) -> ReadLimits:
        return self._options.limits

    def create_reader(self, context: SourceReaderContext) -> FileSourceReader:
        filesystem = self._storage.filesystem()
        listed = self._options.listing is not None and not self._storage.uri
        return FileSourceReader(
            context, filesystem, self._format(), self.schema, self._tolerance, compare_times=listed
        )

    def create_enumerator(self, context: SplitEnumeratorContext[FileSplit]) -> FileSourceEnumerator:
        initial = ProcessedFilesState() if self._options.delta is None else DeltaState()
        return self._enumerator(context, initial, goes_on=False)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[FileSplit], checkpoint: FilesState
    ) -> FileSourceEnumerator:
        return self._enumerator(context, checkpoint, goes_on=True)

    def _enumerator(
        self, context: SplitEnumeratorContext[FileSplit], checkpoint: FilesState, *, goes_on: bool
    ) -> FileSourceEnumerator:
        options = self._options
        statistics = FileStatistics(
            self._storage,
            self._format(),
            self.schema,
            count_rows=options.max_rows is not None,
            tolerance=self._tolerance,
        )
        settings = EnumeratorOptions(options.monitor_interval_ms, options.max_rows)
        backlog = self._backlog(statistics, checkpoint)
        return FileSourceEnumerator(
            context, backlog, statistics, settings, bounded=self._bounded, goes_on=goes_on
        )

    def splits_for_readers(self, splits: Sequence[FileSplit], checkpoint: FilesState) -> Sequence[FileSplit]:
        """Returns the splits with the column mapping of the checkpoint, or with the partition values in their paths."""
        if (listing := self._options.listing) is not None and listing.partitions is not None:
            return [replace(split, partition=listing.partition(split.path)) for split in splits]
        if not isinstance(checkpoint, DeltaState) or checkpoint.columns is None:
            return splits
        return [replace(split, columns=checkpoint.columns) for split in splits]

    def _backlog(self, statistics: FileStatistics, state: FilesState) -> Backlog[Any, Any]:
        options = self._options
        if options.delta is not None and isinstance(state, DeltaState):
            return DeltaFiles(
                options.delta,
                statistics,
                state,
                options.start,
                self._order,
                ReadColumns(self.schema, self._inferred, options.schema_change),
                bounded=self._bounded,
                fail_on_data_loss=options.fail_on_data_loss,
            )
        if options.listing is not None and isinstance(state, ProcessedFilesState):
            seen = ProcessedFiles(state, fail_on_data_loss=options.fail_on_data_loss)
            return ListedFiles(
                WatchedListing(options.listing),
                statistics,
                seen,
                options.modified,
                self._order,
                bounded=self._bounded,
                partition=options.listing.partition,
            )
        raise CorruptCheckpointError(
            "The checkpoint belongs to a query over "
            f"{'files of folders' if options.delta is not None else 'a Delta table'}; this query reads "
            f"{self.fingerprint}. Use another checkpointLocation."
        )

    @property
    def _storage(self) -> Storage:
        place = self._options.delta or self._options.listing
        assert place is not None
        return place.storage

    @property
    def _tolerance(self) -> Tolerance:
        return Tolerance(corrupt=self._options.ignore_corrupt, missing=self._options.ignore_missing)

    @property
    def _data_format(self) -> str:
        return "parquet" if self._options.delta is not None else self._options.format

    def _format(self) -> FileFormat:
        return file_format(self._data_format, self._options.format_options, self.schema)


class FileSourceFactory:
    """The factory of file sources for ``readStream.format("flip27_files")``."""

    name: ClassVar[str] = "flip27_files"
    option_names: ClassVar[Mapping[str, str]] = KNOWN_OPTIONS
    supported_options: ClassVar[Mapping[str, str]] = SUPPORTED_OPTIONS
    option_prefixes: ClassVar[tuple[str, ...]] = (OPTION_PREFIX,)

    def check(self, options: Mapping[str, str]) -> None:
        """Checks the options. No file is opened.

        Raises:
            OptionError: An option is wrong.
        """
        parsed = parse_file_options(options)
        file_format("parquet" if parsed.delta is not None else parsed.format, parsed.format_options)

    def schema(self, options: Mapping[str, str]) -> pa.Schema:
        """Returns the columns of the source if the user gives no schema; see :func:`infer_schema`."""
        return infer_schema(parse_file_options(options))

    def create(
        self,
        options: Mapping[str, str],
        strategy: WatermarkStrategy,
        *,
        bounded: bool = False,
        schema: pa.Schema | None = None,
        inferred: bool = False,
    ) -> FileSource:
        """Returns the source with these options; see :class:`FileSource`."""
        return FileSource(options, strategy, bounded=bounded, schema=schema, inferred=inferred)


def infer_schema(options: FileOptions) -> pa.Schema:
    """Returns the columns of the Delta table, or those of the first file by name and of partition folders.

    Raises:
        OptionError: No file is found.
        ConnectorError: The file or the table cannot be read.
        RecordFormatError: Folders have different partition columns.
    """
    if options.delta is not None:
        return spark_schema(options.delta.schema(), f"Delta table {options.delta.uri}")
    assert options.listing is not None
    listed = WatchedListing(options.listing)().values()
    paths = {file.path: options.listing.partition(file.path) for files in listed for file in files}
    if not paths:
        filters = {NAME_GLOB.name: options.listing.name_glob, PATH_REGEX.name: options.listing.path_regex}
        raise OptionError(
            f"No file from which to take the columns is in {', '.join(options.listing.paths)} (option 'path')"
            + "".join(f" and matches option '{name}' ({text!r})" for name, text in filters.items() if text)
            + ". Give the columns with .schema(...)."
        )
    chosen = file_format(options.format, options.format_options)
    in_file = chosen.schema(options.listing.storage.filesystem(), min(paths))
    return with_partition_columns(in_file, paths)
