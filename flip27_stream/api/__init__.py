"""The FLIP-27 source model, pure: no Spark, no client library, no I/O.

A :class:`Source` creates one :class:`SplitEnumerator` in the planning process of a query, and :class:`SourceReader`
objects in Spark tasks. The enumerator finds :class:`SourceSplit` objects and assigns them; readers read them. A Flink
reader polls for ever; a reader here gets ranges, because Spark fixes what a micro-batch reads before it reads. So the
enumerator also returns how far each split can be read (:meth:`SplitEnumerator.split_ranges`) and, for alignment, the
positions by event time (:class:`SupportsEventTimePositions`).

Names are Flink's in snake_case; all times are ``int`` milliseconds since the epoch.
"""

from flip27_stream.api.enumerator import (
    EventTimePositions,
    EventTimes,
    PositioningRequest,
    ReaderInfo,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitRange,
    SplitsAssignment,
    SupportsEndPosition,
    SupportsEventTimePositions,
)
from flip27_stream.api.events import SourceEvent
from flip27_stream.api.limits import ReadLimits
from flip27_stream.api.metrics import Counter, MetricGroup
from flip27_stream.api.reader import (
    InputStatus,
    ReaderOutput,
    SourceOutput,
    SourceReader,
    SourceReaderContext,
)
from flip27_stream.api.serializer import JsonValue, SimpleVersionedSerializer
from flip27_stream.api.source import AdoptedOffset, Boundedness, Source
from flip27_stream.api.split import SourceSplit
from flip27_stream.api.watermark import (
    RecordTimestampAssigner,
    TimestampAssigner,
    WatermarkAlignment,
    WatermarkStrategy,
)

__all__ = [
    "AdoptedOffset",
    "Boundedness",
    "Counter",
    "EventTimePositions",
    "EventTimes",
    "InputStatus",
    "JsonValue",
    "MetricGroup",
    "PositioningRequest",
    "ReadLimits",
    "ReaderInfo",
    "ReaderOutput",
    "RecordTimestampAssigner",
    "SimpleVersionedSerializer",
    "Source",
    "SourceEvent",
    "SourceOutput",
    "SourceReader",
    "SourceReaderContext",
    "SourceSplit",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "SplitRange",
    "SplitsAssignment",
    "SupportsEndPosition",
    "SupportsEventTimePositions",
    "TimestampAssigner",
    "WatermarkAlignment",
    "WatermarkStrategy",
]
