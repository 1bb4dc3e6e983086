"""The batch reader: ``spark.read``, a bounded read from where the options say to what is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from flip27_stream.spark.enumerator_context import CoordinatorContext
from flip27_stream.spark.job import Job
from flip27_stream.spark.packing import tasks_of
from flip27_stream.spark.patience import Patience
from flip27_stream.spark.stream_reader import TaskPartition
from flip27_stream.spark.task import SplitTask, read_task


class Flip27BatchReader(DataSourceReader):
    """Plans once, at the first action, and reads unaligned: a batch query has no watermark (scenario WM-24)."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def partitions(self) -> Sequence[InputPartition]:
        parallelism = max(self._job.driver.parallelism, 1)
        context = CoordinatorContext(parallelism, self._job.driver.host)
        enumerator = self._job.source.create_enumerator(context)
        try:
            enumerator.start()
            context.run_due()
            ranges = enumerator.split_ranges(dict.fromkeys(context.splits.values()))
            patience = Patience()
            while silent := context.splits.keys() - ranges.keys():
                patience.wait_for(silent)
                ranges = enumerator.split_ranges(dict.fromkeys(context.splits.values()))
        finally:
            context.close()
            enumerator.close()
        to_read = [(context.splits[name], r.position, r.end) for name, r in ranges.items()]
        tasks = tasks_of(to_read, parallelism, self._job.limits)
        return [TaskPartition(SplitTask(i, 0, tuple(task))) for i, task in enumerate(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Where there are no partitions, Spark asks for one that holds ``None``."""
        task = partition.value
        return iter(()) if task is None else read_task(self._job, task)
