"""The Kinesis source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from flip27_stream.api import (
    SourceReader,
    SourceReaderContext,
    SplitEnumeratorContext,
    WatermarkStrategy,
)
from flip27_stream.connector_base.fixed_schema_factory import FixedSchemaFactory
from flip27_stream.connector_base.log_source import LogSource
from flip27_stream.connectors.kinesis.options.option_list import KNOWN_OPTIONS, SUPPORTED_OPTIONS
from flip27_stream.connectors.kinesis.options.source_options import parse_kinesis_options
from flip27_stream.connectors.kinesis.planning.enumerator_state import (
    KinesisEnumeratorState,
    KinesisEnumeratorStateSerializer,
)
from flip27_stream.connectors.kinesis.records.columns import ARRIVAL, is_arrival, schema_of
from flip27_stream.connectors.kinesis.split import KinesisShardSplit, KinesisShardSplitSerializer

if TYPE_CHECKING:
    from flip27_stream.connectors.kinesis.planning.enumerator import KinesisSourceEnumerator


class KinesisSource(LogSource[KinesisShardSplit, KinesisEnumeratorState]):
    """A source of Kinesis streams (Flink ``KinesisStreamsSource``), with the options and columns of Databricks' source.

    Args:
        options: The options, with names in any case; see the page on Kinesis.
        strategy: The event time of records. By default it is the arrival time, for which the service finds positions.
            With another event time, a shard is paused after tasks have reported that it is ahead (FLIP-217).
        bounded: Whether to read only up to the ends that the shards have when reading begins.

    Raises:
        OptionError: An option is unknown, missing, wrong or not supported.
    """

    planning_modules = ("flip27_stream.connectors.kinesis.planning.timed_enumerator",)
    split_serializer = KinesisShardSplitSerializer()
    enumerator_checkpoint_serializer = KinesisEnumeratorStateSerializer()
    ends_in_streams = False
    """The ends of a bounded source are fixed for a batch read only and are not in the state."""

    def __init__(
        self,
        options: Mapping[str, str],
        strategy: WatermarkStrategy | None = None,
        *,
        bounded: bool = False,
    ) -> None:
        self._options = parse_kinesis_options(options, bounded=bounded)
        self._strategy = strategy
        super().__init__(
            schema_of(sub_sequence_number=self._options.sub_sequence_number),
            self._options.limits,
            KinesisEnumeratorState(),
            bounded=bounded,
        )

    @property
    def fingerprint(self) -> str:
        return f"Kinesis streams {', '.join(sorted(self._options.streams))}"

    def create_reader(self, context: SourceReaderContext) -> SourceReader[KinesisShardSplit]:
        from flip27_stream.connectors.kinesis.fetching.reader import KinesisSourceReader

        return KinesisSourceReader(context, self._options, self._schema)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[KinesisShardSplit], checkpoint: KinesisEnumeratorState
    ) -> KinesisSourceEnumerator:
        """Returns an enumerator, which finds positions by event time if event time is the arrival time."""
        from flip27_stream.connectors.kinesis.planning.enumerator import KinesisSourceEnumerator
        from flip27_stream.connectors.kinesis.planning.timed_enumerator import TimedKinesisSourceEnumerator

        strategy = self._strategy
        timed = strategy is None or is_arrival(strategy.timestamp_assigner)
        kind = TimedKinesisSourceEnumerator if timed else KinesisSourceEnumerator
        return kind(context, self._options, checkpoint)


class KinesisSourceFactory(FixedSchemaFactory[KinesisSource]):
    """The factory of Kinesis sources for ``readStream.format("flip27_kinesis")``."""

    name: ClassVar[str] = "flip27_kinesis"
    make = KinesisSource
    option_names: ClassVar[Mapping[str, str]] = KNOWN_OPTIONS
    supported_options: ClassVar[Mapping[str, str]] = SUPPORTED_OPTIONS
    option_prefixes: ClassVar[tuple[str, ...]] = ()
    timestamp_column: ClassVar[str] = ARRIVAL
    value_column: ClassVar[str] = "data"
