"""The Spark data source: creates readers from options. It imports no connector."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from flip27_stream.api import Source, WatermarkStrategy
from flip27_stream.errors import Flip27Error, OptionError, shortened
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.options.known_options import check_known, check_not_refused
from flip27_stream.options.option import canonical_names
from flip27_stream.spark.format_names import check_name, check_name_of_user
from flip27_stream.spark.function_source import FunctionSource
from flip27_stream.spark.planning.batch_reader import Flip27BatchReader
from flip27_stream.spark.planning.stream_reader import Flip27StreamReader
from flip27_stream.spark.session.failing_reader import FailingStreamReader
from flip27_stream.spark.session.session_server import address_of, parallelism_of
from flip27_stream.spark.session.spark_features import arrow_schema
from flip27_stream.spark.session.worker_environment import complete_environment
from flip27_stream.spark.source_contract import check_source
from flip27_stream.spark.source_spec import Driver, SourceFactory, SourceSpec
from watermark_alignment.options import (
    EVENT_TIME,
    OPTIONS,
    REFUSED,
    SOURCE_ID,
    STORAGE_OPTION_PREFIX,
    AlignmentOptions,
)
from watermark_alignment.table.spool_root import spool_root_of

_WRITING: Final = "pyspark.sql.worker.write_into_data_source"
"""The module of the worker processes in which Spark prepares a write."""

_OF_A_SOURCE: Final = (
    "keep configuration in {name}, and open connections, files and locks in its enumerator and readers"
)
_OF_A_FUNCTION: Final = (
    "make connections, files and locks inside the function, and do not take them from the code around it"
)


class Flip27DataSource(DataSource):
    """A source as a Spark format; :func:`data_source` returns a subclass for each format."""

    factory: ClassVar[SourceFactory]
    driver: ClassVar[Driver] = Driver()

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        given = {key.lower(): value for key, value in options.items()}
        _refuse_writing(self.factory.name)
        _refuse_table(given, self.factory.name)
        check_not_refused(given, REFUSED)
        factory = self.factory
        own, shared = dict(factory.option_names), canonical_names(OPTIONS)
        prefixes = (*factory.option_prefixes, STORAGE_OPTION_PREFIX)
        check_known(given, shared | own, prefixes, (getattr(factory, "supported_options", own), shared))
        self._alignment = AlignmentOptions.parse(given)
        self._own = {
            key: value
            for key, value in given.items()
            if not key.startswith("scan.watermark.") and key != SOURCE_ID.name
        }
        factory.check(self._own)
        self._inferred = False
        # The id is drawn here, because each planning process creates a reader of its own.
        self._definition = secrets.token_hex(8)

    @classmethod
    def name(cls) -> str:
        return cls.factory.name

    def schema(self) -> StructType:
        """Returns the schema. Spark calls it only if the user gave no schema.

        Otherwise wrong options are not found before the query starts.
        """
        schema = self.factory.schema(self._own)
        self._inferred = True  # Spark pickles this object for the processes that read.
        _strategy(self._alignment, schema, self.factory)
        return from_arrow_schema(schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return Flip27BatchReader(self._spec(schema, bounded=True))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            return Flip27StreamReader(self._spec(schema, bounded=False))
        except Flip27Error as error:
            return FailingStreamReader(error)

    def _spec(self, schema: StructType, *, bounded: bool) -> SourceSpec:
        wanted = _arrow_schema(schema)
        alignment = None if bounded else self._alignment
        strategy = _strategy(alignment, wanted, self.factory)
        source = self.factory.create(
            self._own, strategy, bounded=bounded, schema=wanted, inferred=self._inferred
        )
        return SourceSpec(source, strategy, alignment, self.driver, self._definition)


class FixedSource:
    """The :class:`SourceFactory` of a source that is configured in code."""

    option_names: Mapping[str, str] = {}
    option_prefixes: tuple[str, ...] = ()

    def __init__(self, source: Source[Any, Any], name: str) -> None:
        check_source(source)
        _check_columns(source.schema, name)
        _check_pickles(source, f"Source '{name}'", _OF_A_SOURCE.format(name=type(source).__name__))
        self.name = name
        self._source = source

    def check(self, options: Mapping[str, str]) -> None:
        """Does nothing: the source has no options."""

    def schema(self, options: Mapping[str, str]) -> pa.Schema:
        return self._source.schema

    def create(
        self,
        options: Mapping[str, str],
        strategy: WatermarkStrategy,
        *,
        bounded: bool,
        schema: pa.Schema | None = None,
        inferred: bool = False,
    ) -> Source[Any, Any]:
        _check_fixed_schema(self._source, schema, self.name)
        return self._source


def _check_fixed_schema(source: Source[Any, Any], schema: pa.Schema | None, name: str) -> None:
    """Checks the schema that the user gave.

    Raises:
        OptionError: The schema is not that of the source.
    """
    fixed = from_arrow_schema(source.schema)
    if schema is not None and from_arrow_schema(schema) != fixed:
        raise OptionError(
            f"Format '{name}' has a fixed schema; leave out .schema(...). "
            f"It is {fixed.simpleString()}, not {from_arrow_schema(schema).simpleString()}."
        )


def data_source(
    source: Source[Any, Any] | SourceFactory | Callable[..., Source[Any, Any]],
    name: str | None = None,
    spark: SparkSession | None = None,
) -> type[DataSource]:
    """Returns a class for ``spark.dataSource.register``.

    Args:
        source: A source configured in code; or a function whose parameters are the options of the
            format (see :class:`FunctionSource`); or a :class:`SourceFactory`.
        name: The name of the format; a :class:`SourceFactory` has a name of its own.
        spark: The session that the class will be registered with; by default the active session.

    Raises:
        ValueError: There is no name, or one that is not allowed; the source, or the function with what it takes from
            the code around it, cannot be pickled; the source has columns of types that Spark does not have; or a
            parameter of the function cannot be an option.
        ContractError: A property of the source has a wrong type or value.
    """
    is_factory = hasattr(source, "create") and not isinstance(source, type)
    makes = callable(source) and not isinstance(source, type)
    if not (isinstance(source, Source) or is_factory or makes):
        raise ValueError(
            f"Give data_source() a Source, a SourceFactory, or a function that makes a source, not {source!r}. "
            "In place of a class give an object of it, or a function whose parameters are the options of the format."
        )
    if not name and not is_factory:
        raise ValueError("Give data_source() a name as well: the source becomes the format of that name.")
    if not is_factory:
        check_name_of_user(name)
    factory = _factory(source, name or "")
    session = spark or SparkSession.getActiveSession()
    complete_environment(session)
    # A class made here is pickled by value, so its attributes reach the planning process.
    attributes = {"factory": factory, "driver": driver_of(session)}
    return type(f"Flip27DataSource_{factory.name}", (Flip27DataSource,), attributes)


def _factory(
    source: Source[Any, Any] | SourceFactory | Callable[..., Source[Any, Any]], name: str
) -> SourceFactory:
    if isinstance(source, Source):
        return FixedSource(source, name)
    if callable(source):
        made = FunctionSource(source, name, _check_fixed_schema)
        _check_pickles(made, f"The function for format '{name}'", _OF_A_FUNCTION)
        return made
    check_name(source.name)
    what = f"The factory {type(source).__name__} of format '{source.name}'"
    _check_pickles(source, what, _OF_A_SOURCE.format(name="the factory"))
    return source


def register(spark: SparkSession, source: Source[Any, Any] | SourceFactory, name: str | None = None) -> None:
    """Registers ``source`` as a format of a session; replaces a format of the same name."""
    if SparkSession.getActiveSession() is not spark:
        # Spark looks up the name in the active session, so this call makes this session the active one.
        spark.createDataFrame([], "nothing int")
    spark.dataSource.register(data_source(source, name, spark))


def _refuse_writing(name: str) -> None:
    """Checks that the format is not used to write.

    Spark does not say what it makes a data source for, but makes it in another worker process. Without this check the
    options of ``writeStream`` would be called unknown, or those of a read missing.

    Raises:
        OptionError: This process prepares a write.
    """
    if _WRITING in (*sys.modules, getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", None)):
        raise OptionError(
            f"Format '{name}' only reads. Give write or writeStream another format, such as delta or Spark's own kafka."
        )


def _refuse_table(given: Mapping[str, str], name: str) -> None:
    """Checks that the format is not used for a table of a catalog.

    When a table is created, Spark passes each option twice: also as ``option.<name>``. When it is read, Spark passes no
    options.

    Raises:
        OptionError: The options are those of a table.
    """
    if any(f"option.{option}" in given for option in given):
        raise OptionError(
            f"Format '{name}' cannot be used for a table: Spark reads tables of Python sources without their options. "
            f"Use CREATE TEMPORARY VIEW ... USING {name} OPTIONS (...), or give the options to spark.read."
        )


def _arrow_schema(schema: StructType) -> pa.Schema:
    """Returns the schema that record batches must have."""
    try:
        return arrow_schema(schema)
    except PySparkException as error:
        raise OptionError(
            f"The schema {schema.simpleString()} has a type that Arrow does not support: {error} "
            "Leave that column out, or give it another type."
        ) from error


def _check_columns(schema: object, name: str) -> None:
    """Checks that Spark accepts record batches of ``schema`` as they are.

    Raises:
        ValueError: Spark does not support a type or a name of a column.
    """
    if not isinstance(schema, pa.Schema) or not schema.names or len(set(schema.names)) < len(schema.names):
        raise ValueError(
            f"The schema of source '{name}' must be a pyarrow.Schema with at least one column, each of another name; "
            f"it is {shortened(repr(schema))}."
        )
    unfit = [f"{field} ({wanted})" for field in schema if (wanted := _unfit(field)) is not None]
    if unfit:
        raise ValueError(
            f"Source '{name}' has columns of types that Spark does not read: {', '.join(unfit)}. Its record batches "
            "must have Spark's own types."
        )


def _unfit(field: pa.Field) -> str | None:
    """Returns a description of a column whose type Spark does not support; ``None`` if Spark supports the type."""
    try:
        wanted = arrow_schema(from_arrow_schema(pa.schema([field]))).field(0).type
    except PySparkException:
        return "Spark has no such type"
    return None if wanted == field.type else f"make it {wanted}"


def _check_pickles(made: object, what: str, remedy: str) -> None:
    """Checks that an object can be sent to the planning process and to tasks.

    Raises:
        ValueError: It cannot.
    """
    try:
        cloudpickle.dumps(made)  # type: ignore[no-untyped-call]
    except Exception as e:
        raise ValueError(
            f"{what} cannot be sent to other processes: {e}. It must be picklable: {remedy}."
        ) from e


def _strategy(
    alignment: AlignmentOptions | None, schema: pa.Schema, factory: SourceFactory
) -> WatermarkStrategy:
    """Returns the watermark strategy that the options describe, over the columns of the factory's source."""
    if alignment is None:
        return WatermarkStrategy.for_monotonous_timestamps()
    timestamps: str = getattr(factory, "timestamp_column", "timestamp")
    values: str = getattr(factory, "value_column", "value")
    event_time = timestamps if alignment.event_time == EVENT_TIME.default else alignment.event_time
    assigner = timestamp_assigner(
        event_time, schema, EVENT_TIME.name, timestamps, values, unit=alignment.event_time_unit
    )
    strategy = (
        WatermarkStrategy.for_bounded_out_of_orderness(alignment.max_out_of_orderness_ms)
        .with_timestamp_assigner(assigner)
        .with_watermark_alignment(alignment.group, alignment.max_drift_ms, alignment.update_interval_ms)
    )
    return strategy.with_idleness(alignment.idle_timeout_ms) if alignment.idle_timeout_ms else strategy


def driver_of(spark: SparkSession | None) -> Driver:
    """Returns the address and the parallelism of the driver, for the planning process, which has no session."""
    if spark is None:
        return Driver()
    host = spark.conf.get("spark.driver.host", None) or "127.0.0.1"
    bind_address = spark.conf.get("spark.driver.bindAddress", None) or host
    return Driver(host, bind_address, parallelism_of(spark), spool_root_of(spark), address_of(spark))
