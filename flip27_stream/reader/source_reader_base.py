"""The base class of readers that fetch in threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import Future

from flip27_stream.api import InputStatus, ReaderOutput, SourceReader, SourceReaderContext
from flip27_stream.api.split import SplitT
from flip27_stream.errors import ConnectorError, ContractError, shortened
from flip27_stream.reader.emitter import RecordEmitter
from flip27_stream.reader.fetcher_manager import SplitFetcherManager
from flip27_stream.reader.progress import RangeSplit, SplitProgress
from flip27_stream.reader.records import Records

_CLOSE_TIMEOUT_S = 2.0


class SourceReaderBase(SourceReader[SplitT]):
    """A reader that emits fetched records, up to the planned end of each split (Flink ``SourceReaderBase``).

    Each poll emits the records of one split from one fetch. A split ends when its split reader names it as finished,
    or, where records have positions, at the end position of its range; then it is removed from the split reader. The
    metric ``records_in`` counts the emitted records.

    Args:
        context: The context of the task.
        fetchers: Fetches the records, in one thread or several.
        emitter: Converts fetched records to rows.
        close_timeout_s: How long (s) :meth:`close` waits for a running fetch.
    """

    def __init__(
        self,
        context: SourceReaderContext,
        fetchers: SplitFetcherManager[SplitT],
        emitter: RecordEmitter[SplitT],
        close_timeout_s: float = _CLOSE_TIMEOUT_S,
    ) -> None:
        self._fetchers = fetchers
        self._emitter = emitter
        self._close_timeout_s = close_timeout_s
        self._splits: dict[str, SplitProgress[SplitT]] = {}
        self._pieces: deque[tuple[str, Records]] = deque()
        self._finishing: Collection[str] = ()
        self._no_more_splits = False
        self._records_in = context.metric_group().counter("records_in")

    # ---- for subclasses -------------------------------------------------------------------------------------------

    def initialize_state(self, split: SplitT) -> SplitProgress[SplitT]:
        """Returns the state of a split that was added.

        Override it for splits that are not of :class:`RangeSplit`. A state without positions means that the split
        reader keeps to the range itself.
        """
        if isinstance(split, RangeSplit):
            return SplitProgress(split, split.start, split.end)
        return SplitProgress(split)

    def on_split_finished(self, finished: Sequence[SplitProgress[SplitT]]) -> None:
        """Called when splits were read to the ends of their ranges and all their records were emitted."""

    # ---- what the task calls --------------------------------------------------------------------------------------

    def add_splits(self, splits: Sequence[SplitT]) -> None:
        to_fetch = []
        for split in splits:
            progress: object = self.initialize_state(split)
            if not isinstance(progress, SplitProgress):
                raise ContractError(
                    f"{type(self).__name__}.initialize_state() returned {shortened(repr(progress))}; it must return a "
                    "SplitProgress."
                )
            self._splits[split.split_id] = progress
            if progress.at_end:
                self._finishing = [*self._finishing, split.split_id]
            else:
                to_fetch.append(split)
        if to_fetch:
            self._fetchers.add_splits(to_fetch)

    def notify_no_more_splits(self) -> None:
        self._no_more_splits = True
        self._fetchers.queue.notify_available()

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emits the next records; see :meth:`SourceReader.poll_next`.

        Raises:
            Flip27Error: An error of a fetcher or the emitter.
            ConnectorError: A fetcher failed with any other error, which is its cause.
        """
        if not self._pieces:
            self._finish(output)
            self._fetchers.check_errors()
            fetched = self._fetchers.queue.poll()
            if fetched is None:
                return self._nothing_fetched()
            self._finishing = fetched.finished
            self._pieces.extend((name, piece) for name, pieces in fetched.records.items() for piece in pieces)
        if self._pieces:
            self._emit(*self._pieces.popleft(), output)
        if not self._pieces:
            self._finish(output)
        return InputStatus.MORE_AVAILABLE

    def is_available(self) -> Future[None]:
        return (
            super().is_available() if self._pieces or self._finishing else self._fetchers.queue.availability()
        )

    def snapshot_state(self) -> Sequence[SplitT]:
        return [progress.rest() for progress in self._splits.values()]

    def close(self) -> None:
        self._fetchers.close(self._close_timeout_s)

    # ---- steps of a poll ------------------------------------------------------------------------------------------

    def _nothing_fetched(self) -> InputStatus:
        if not (self._fetchers.shut_down_idle() and self._no_more_splits):
            return InputStatus.NOTHING_AVAILABLE
        self._fetchers.check_errors()
        # The last fetch may have come between the poll and the end of its fetcher.
        return InputStatus.END_OF_INPUT if self._fetchers.queue.is_empty() else InputStatus.MORE_AVAILABLE

    def _emit(self, split_id: str, fetched: Records, output: ReaderOutput) -> None:
        progress = self._known(split_id)
        was_at_end = progress.at_end
        records = progress.take(fetched)
        if len(records):
            self._emitter.emit_records(records, output.create_output_for_split(split_id), progress)
            progress.rows += len(records)
            self._records_in.inc(len(records))
        if progress.at_end and not was_at_end and split_id not in self._finishing:
            self._fetchers.remove_splits([split_id])

    def _finish(self, output: ReaderOutput) -> None:
        finishing, self._finishing = self._finishing, ()
        if not finishing:
            return
        finished = [self._known(split_id) for split_id in finishing]
        for split_id in finishing:
            del self._splits[split_id]
            output.release_output_for_split(split_id)
        self.on_split_finished(finished)

    def _known(self, split_id: str) -> SplitProgress[SplitT]:
        progress = self._splits.get(split_id)
        if progress is None:
            raise ConnectorError(
                f"A fetch returned records or the end of split '{split_id}', which is finished or was never "
                "added. A split reader must return records under the id of their split, and no records after its end."
            )
        return progress
