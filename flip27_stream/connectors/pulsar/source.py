"""The Pulsar source."""

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
from flip27_stream.connectors.pulsar.options.option_list import KNOWN_OPTIONS, SUPPORTED_OPTIONS
from flip27_stream.connectors.pulsar.options.source_options import TopicPattern, parse_pulsar_options
from flip27_stream.connectors.pulsar.planning.enumerator_state import (
    PulsarEnumeratorState,
    PulsarEnumeratorStateSerializer,
)
from flip27_stream.connectors.pulsar.records.columns import PUBLISH_TIME, SCHEMA
from flip27_stream.connectors.pulsar.split import PulsarPartitionSplit, PulsarPartitionSplitSerializer

if TYPE_CHECKING:
    from flip27_stream.connectors.pulsar.planning.enumerator import PulsarSourceEnumerator


class PulsarSource(LogSource[PulsarPartitionSplit, PulsarEnumeratorState]):
    """A source of persistent Pulsar topics (Flink ``PulsarSource``), with options and columns of StreamNative's source.

    Args:
        options: The options, with names in any case; see the page on Pulsar.
        strategy: Not used, because each request for positions by event time has a timestamp assigner of its own.
        bounded: Whether to read only up to the ends that the partitions have when reading begins.

    Raises:
        OptionError: An option is unknown, missing, wrong or not supported.
    """

    planning_modules = ("flip27_stream.connectors.pulsar.planning.enumerator",)
    split_serializer = PulsarPartitionSplitSerializer()
    enumerator_checkpoint_serializer = PulsarEnumeratorStateSerializer()
    ends_in_streams = False
    """The ends of a bounded source are fixed for a batch read only and are not in the state."""

    def __init__(
        self,
        options: Mapping[str, str],
        strategy: WatermarkStrategy | None = None,
        *,
        bounded: bool = False,
    ) -> None:
        self._options = parse_pulsar_options(options, bounded=bounded)
        super().__init__(SCHEMA, self._options.limits, PulsarEnumeratorState(), bounded=bounded)

    @property
    def fingerprint(self) -> str:
        topics = self._options.topics
        if isinstance(topics, TopicPattern):
            return f"Pulsar topics {topics.name} of {topics.namespace}"
        return f"Pulsar topics {', '.join(sorted(topics))}"

    def create_reader(self, context: SourceReaderContext) -> SourceReader[PulsarPartitionSplit]:
        from flip27_stream.connectors.pulsar.fetching.reader import PulsarSourceReader

        return PulsarSourceReader(context, self._options)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[PulsarPartitionSplit], checkpoint: PulsarEnumeratorState
    ) -> PulsarSourceEnumerator:
        from flip27_stream.connectors.pulsar.planning.enumerator import PulsarSourceEnumerator

        return PulsarSourceEnumerator(context, self._options, checkpoint)


class PulsarSourceFactory(FixedSchemaFactory[PulsarSource]):
    """The factory of Pulsar sources for ``readStream.format("flip27_pulsar")``."""

    name: ClassVar[str] = "flip27_pulsar"
    make = PulsarSource
    option_names: ClassVar[Mapping[str, str]] = KNOWN_OPTIONS
    supported_options: ClassVar[Mapping[str, str]] = SUPPORTED_OPTIONS
    option_prefixes: ClassVar[tuple[str, ...]] = ()
    timestamp_column: ClassVar[str] = PUBLISH_TIME
    value_column: ClassVar[str] = "value"
