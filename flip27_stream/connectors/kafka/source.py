"""The Kafka source and its factory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from flip27_stream.api import (
    AdoptedOffset,
    SourceReader,
    SourceReaderContext,
    SplitEnumeratorContext,
    WatermarkStrategy,
)
from flip27_stream.connector_base.log_source import LogSource
from flip27_stream.connectors.kafka.options.offset_options import ENDING
from flip27_stream.connectors.kafka.options.source_options import (
    KNOWN_OPTIONS,
    SUPPORTED_OPTIONS,
    KafkaOptions,
    parse_kafka_options,
)
from flip27_stream.connectors.kafka.options.subscriber_options import OPTIONS as SUBSCRIPTIONS
from flip27_stream.connectors.kafka.planning.enumerator_state import (
    KafkaEnumeratorState,
    KafkaEnumeratorStateSerializer,
)
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, KafkaPartitionSplitSerializer
from flip27_stream.connectors.kafka.values.row_layouts import records_schema, row_layout
from flip27_stream.errors import OptionError

if TYPE_CHECKING:
    from flip27_stream.connectors.kafka.planning.enumerator import KafkaSourceEnumerator


class KafkaSource(LogSource[KafkaPartitionSplit, KafkaEnumeratorState]):
    """A source of Kafka topics (Flink ``KafkaSource``), with the options and the schema of Spark's built-in source.

    The modules for planning and for reading are imported on use, because a process either plans or reads.

    Args:
        options: The options, with names in any case; see the options page.
        strategy: The event time of records, and its disorder. If event time is not the timestamp of the record,
            positions by event time are found by reading records.
        bounded: Whether this is a batch read, which ends at the ending offsets; by default the log ends when it begins.
        schema: The wanted columns, by default those of Spark's source; with ``value.format`` json or avro also fields
            of the value.

    Raises:
        OptionError: An option is unknown, missing or wrong, or the schema does not fit.
    """

    planning_modules = ("flip27_stream.connectors.kafka.planning.enumerator",)
    split_serializer = KafkaPartitionSplitSerializer()
    enumerator_checkpoint_serializer = KafkaEnumeratorStateSerializer()

    def __init__(
        self,
        options: Mapping[str, str],
        strategy: WatermarkStrategy | None = None,
        *,
        bounded: bool = False,
        schema: pa.Schema | None = None,
    ) -> None:
        self._options = parse_kafka_options(options, bounded=bounded)
        if schema is None:
            schema = records_schema(self._options.values, self._options.include_headers)
        self._layout = row_layout(schema, self._options.values)
        self._strategy = strategy
        super().__init__(
            self._layout.schema,
            self._options.limits,
            KafkaEnumeratorState(),
            bounded=bounded or self._options.stopping_offsets is not None,
        )

    @property
    def fingerprint(self) -> str:
        return f"Kafka {self._options.subscriber}"

    @property
    def reads(self) -> str:
        return self._options.subscriber.reads

    def accepts_checkpoint_of(self, fingerprint: str) -> bool:
        """Returns whether ``fingerprint`` is that of a Kafka source: the subscription may change, as in Spark."""
        return _ANY_SUBSCRIPTION.fullmatch(fingerprint) is not None

    def adopt_offset(
        self, document: Mapping[str, Any]
    ) -> AdoptedOffset[KafkaPartitionSplit, KafkaEnumeratorState] | None:
        """Returns the enumerator state and the splits for an offset of Spark's Kafka source.

        A query that used that source continues from its checkpoint with them.
        """
        from flip27_stream.connectors.kafka.planning.spark_offsets import adopted, first_begins_by

        return adopted(document, first_begins_by(self._options))

    def create_reader(self, context: SourceReaderContext) -> SourceReader[KafkaPartitionSplit]:
        from flip27_stream.connectors.kafka.fetching.reader import KafkaSourceReader

        return KafkaSourceReader(context, self._options, self._layout)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[KafkaPartitionSplit], checkpoint: KafkaEnumeratorState
    ) -> KafkaSourceEnumerator:
        from flip27_stream.connectors.kafka.planning.enumerator import KafkaSourceEnumerator

        return KafkaSourceEnumerator(context, self._options, self._strategy, checkpoint, self._layout)

    def splits_for_readers(
        self, splits: Sequence[KafkaPartitionSplit], checkpoint: KafkaEnumeratorState
    ) -> Sequence[KafkaPartitionSplit]:
        """Returns the splits with the ids of their topics, so that no other topic of the same name is read."""
        return [checkpoint.for_reader(split, self._options.trusted_cluster) for split in splits]


_SUBSCRIPTION_NAMES = "|".join(option.name for option in SUBSCRIPTIONS)
_ANY_SUBSCRIPTION = re.compile(rf"Kafka option '({_SUBSCRIPTION_NAMES})' \(.*\)", re.DOTALL)
_ENDING = {option.key for option in ENDING}


class KafkaSourceFactory:
    """The factory of Kafka sources for ``readStream.format("flip27_kafka")``."""

    name: ClassVar[str] = "flip27_kafka"
    option_names: ClassVar[Mapping[str, str]] = KNOWN_OPTIONS
    supported_options: ClassVar[Mapping[str, str]] = SUPPORTED_OPTIONS
    option_prefixes: ClassVar[tuple[str, ...]] = ("kafka.",)

    def check(self, options: Mapping[str, str]) -> None:
        """Checks the options.

        Raises:
            OptionError: The options are wrong for a stream and for a batch read.
        """
        _parsed(options)

    def schema(self, options: Mapping[str, str]) -> pa.Schema:
        """Returns the schema of a query whose user gave no schema; see :func:`records_schema`."""
        parsed = _parsed(options)
        return records_schema(parsed.values, parsed.include_headers)

    def create(
        self,
        options: Mapping[str, str],
        strategy: WatermarkStrategy,
        *,
        bounded: bool = False,
        schema: pa.Schema | None = None,
        inferred: bool = False,
    ) -> KafkaSource:
        """Returns the source that these options describe; see :class:`KafkaSource`."""
        return KafkaSource(options, strategy, bounded=bounded, schema=schema)


def _parsed(options: Mapping[str, str]) -> KafkaOptions:
    """Returns the options as those of a stream or of a batch read.

    Options of ending offsets are tried as a batch read first, others as a stream. The error is that of the first try.
    """
    is_batch = any(name.lower() in _ENDING for name in options)
    try:
        return parse_kafka_options(options, bounded=is_batch)
    except OptionError as wrong:
        try:
            return parse_kafka_options(options, bounded=not is_batch)
        except OptionError:
            raise wrong from None
