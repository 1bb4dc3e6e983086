"""Base classes for readers of new sources (as Flink's ``flink-connector-base``): columnar, without Spark.

The shortest reader is a generator that reads one split from its start to its end::

    @dataclass(frozen=True)
    class Shelf(RangeSplit):
        name: str

        @property
        def split_id(self) -> str:
            return self.name

    def read(split: Shelf) -> Iterator[dict[str, object]]:
        for number in range(split.start, split.end):
            yield {"shelf": split.name, "book": number}

    class Library(Source[Shelf, Found]):
        def create_reader(self, context):
            return IteratorSourceReader(context, self.schema, read)

For a client that waits for an external system, write a :class:`SplitReader`. A :class:`SplitFetcherManager` calls it in
threads. :class:`SourceReaderBase` takes the fetched records from a bounded queue, cuts them at the ends of the planned
ranges and emits them. Alignment pauses splits when a batch is planned, so fetchers have no method to pause (FLIP-217).
The reader models of FLIP-27:

* one split after another: :class:`IteratorSplitReader` under a :class:`SingleThreadFetcherManager`;
* several splits multiplexed: a :class:`SplitReader` of many splits under a :class:`SingleThreadFetcherManager`;
* a thread for each split: any :class:`SplitReader` under a :class:`FetcherPerSplitManager`.
"""

from flip27_stream.reader.emitter import ArrowRecordEmitter, RecordEmitter
from flip27_stream.reader.fetcher_manager import (
    FetcherPerSplitManager,
    SingleThreadFetcherManager,
    SplitFetcherManager,
)
from flip27_stream.reader.iterators import IteratorSourceReader, IteratorSplitReader
from flip27_stream.reader.progress import RangeSplit, SplitProgress
from flip27_stream.reader.records import Record, Records, RecordsWithSplitIds
from flip27_stream.reader.serializer import DataclassSerializer
from flip27_stream.reader.source_reader_base import SourceReaderBase
from flip27_stream.reader.split_reader import SplitReader, SplitsAddition, SplitsChange, SplitsRemoval

__all__ = [
    "ArrowRecordEmitter",
    "DataclassSerializer",
    "FetcherPerSplitManager",
    "IteratorSourceReader",
    "IteratorSplitReader",
    "RangeSplit",
    "Record",
    "RecordEmitter",
    "Records",
    "RecordsWithSplitIds",
    "SingleThreadFetcherManager",
    "SourceReaderBase",
    "SplitFetcherManager",
    "SplitProgress",
    "SplitReader",
    "SplitsAddition",
    "SplitsChange",
    "SplitsRemoval",
]
