"""The Kafka source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from flip27_stream.api import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumeratorContext,
    WatermarkStrategy,
)
from flip27_stream.connectors.kafka.enumerator import KafkaSourceEnumerator
from flip27_stream.connectors.kafka.enumerator_state import (
    KafkaEnumeratorState,
    KafkaEnumeratorStateSerializer,
)
from flip27_stream.connectors.kafka.options import OPTION_NAMES, parse_kafka_options
from flip27_stream.connectors.kafka.reader import KafkaSourceReader
from flip27_stream.connectors.kafka.rows import SCHEMA
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, KafkaPartitionSplitSerializer


class KafkaSource(Source[KafkaPartitionSplit, KafkaEnumeratorState]):
    """Reads Kafka topics (Flink ``KafkaSource``), with the options and the schema of Spark's built-in source.

    Args:
        options: names in any case; see the options page.
        strategy: how event time is found; where it is not the record's timestamp, positions by event time are found by
            probing.
        bounded: read up to the end that there is when reading begins, and no further.

    Raises:
        OptionError: an option is unknown, missing or wrong.
    """

    def __init__(
        self, options: Mapping[str, str], strategy: WatermarkStrategy | None = None, *, bounded: bool = False
    ) -> None:
        self._options = parse_kafka_options(options, bounded=bounded)
        self._strategy = strategy or WatermarkStrategy()
        self._bounded = bounded

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    @property
    def fingerprint(self) -> str:
        return f"Kafka {self._options.subscriber}"

    def create_reader(self, context: SourceReaderContext) -> SourceReader[KafkaPartitionSplit]:
        return KafkaSourceReader(context, self._options)

    def create_enumerator(
        self, context: SplitEnumeratorContext[KafkaPartitionSplit]
    ) -> KafkaSourceEnumerator:
        return self.restore_enumerator(context, KafkaEnumeratorState())

    def restore_enumerator(
        self, context: SplitEnumeratorContext[KafkaPartitionSplit], checkpoint: KafkaEnumeratorState
    ) -> KafkaSourceEnumerator:
        return KafkaSourceEnumerator(context, self._options, self._strategy, checkpoint)

    @property
    def split_serializer(self) -> KafkaPartitionSplitSerializer:
        return KafkaPartitionSplitSerializer()

    @property
    def enumerator_checkpoint_serializer(self) -> KafkaEnumeratorStateSerializer:
        return KafkaEnumeratorStateSerializer()


class KafkaSourceFactory:
    """Makes Kafka sources for ``readStream.format("flip27_kafka")``."""

    name: ClassVar[str] = "flip27_kafka"
    option_names: ClassVar[Mapping[str, str]] = {name.lower(): name for name in OPTION_NAMES}
    option_prefixes: ClassVar[tuple[str, ...]] = ("kafka.",)

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def create(
        self, options: Mapping[str, str], strategy: WatermarkStrategy, *, bounded: bool = False
    ) -> KafkaSource:
        """The source that these options describe; see :class:`KafkaSource`."""
        return KafkaSource(options, strategy, bounded=bounded)

    def read_limit(self, options: Mapping[str, str]) -> int | None:
        """Rows per micro-batch (``maxOffsetsPerTrigger``), ``None`` for no limit."""
        return parse_kafka_options(options).max_offsets_per_trigger
