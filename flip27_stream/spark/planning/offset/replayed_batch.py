"""The batch that Spark has run again in a new process before that process planned one."""

from __future__ import annotations

from collections.abc import Sequence

from flip27_stream.spark.execution.task import SplitTask
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.spark.source_spec import AnyEnumerator
from offsets.offset import AnyOffset


class ReplayedBatch:
    """The tasks of the replayed batch. The readers to which they were first assigned ended with the former process."""

    def __init__(self) -> None:
        self._batch = -1
        self._tasks: Sequence[SplitTask] = ()

    def remember(self, batch: int, tasks: Sequence[SplitTask]) -> None:
        """Stores the tasks of the replayed batch, which has the number ``batch``."""
        self._batch, self._tasks = batch, tasks

    def give_back(
        self, start: AnyOffset | None, context: CoordinatorContext, enumerator: AnyEnumerator
    ) -> None:
        """Calls ``add_splits_back`` for each task of the replayed batch, if the plan starts where that batch ended.

        Args:
            start: The offset that the first plan of this process starts from; ``None`` for a new query.
            context: The context with the assigned splits.
            enumerator: The restored enumerator.
        """
        if start is None or start.batch != self._batch:
            return
        for task in self._tasks:
            splits = [context.splits[r.split.split_id] for r in task.ranges]
            context.give_back(splits)
            enumerator.add_splits_back(splits, task.subtask)
