"""The loop that drives one reader over planned ranges, from ``start`` to ``END_OF_INPUT``.

A task, the planning process (which reads the end of a source again for a hybrid source) and the test kit all read
through it, so a reader meets the same calls in the same order everywhere.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from flip27_stream.api import (
    InputStatus,
    ReaderOutput,
    Source,
    SourceEvent,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
)
from flip27_stream.api.contract import check_bounded, check_made, check_splits
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.errors import ConnectorError, ContractError, some_of
from flip27_stream.running_time import turns

AVAILABILITY_TIMEOUT_S = 60.0

log = logging.getLogger(__name__)


def read_ranges(
    source: Source[Any, Any],
    context: SourceReaderContext,
    ranges: Sequence[PlannedRange],
    output: ReaderOutput,
    *,
    events: Sequence[SourceEvent] = (),
    timeout_s: float = AVAILABILITY_TIMEOUT_S,
    unread: Callable[[], str] | None = None,
) -> Generator[InputStatus, None, None]:
    """Reads ``ranges`` to their ends with a new reader of ``source``, which is closed at the end.

    Closing the iterator early closes the reader, as when a task is killed.

    Args:
        source: Creates the reader.
        context: The context of the reader.
        ranges: The ranges to read.
        output: Receives the records.
        events: Events of the enumerator, which the reader receives before it reads.
        timeout_s: How long (s) the reader may have nothing available.
        unread: Describes the ranges that are not read to their ends, for an error; by default
            ``snapshot_state()`` of the reader names the splits.

    Yields:
        The status after each call of ``poll_next``. The records of the call are in ``output`` by then.

    Raises:
        ConnectorError: Nothing became available for ``timeout_s``.
        ContractError: The reader returned a value of the wrong type, or ended before all ranges were read.
        Exception: Any error of the reader.
    """
    reader = source.create_reader(context)
    check_made("The source's create_reader()", reader, SourceReader)
    with _closing(reader):
        reader.start()
        reader.add_splits([_bounded(r) for r in ranges])
        for event in events:
            reader.handle_source_events(event)
        reader.notify_no_more_splits()
        yield from _poll(reader, output, timeout_s, unread)
        _check_end(reader)


def _poll(
    reader: SourceReader[Any], output: ReaderOutput, timeout_s: float, unread: Callable[[], str] | None
) -> Iterator[InputStatus]:
    status = InputStatus.MORE_AVAILABLE
    while status is not InputStatus.END_OF_INPUT:
        status = reader.poll_next(output)
        check_made(f"{type(reader).__name__}.poll_next()", status, InputStatus)
        yield status
        if status is InputStatus.NOTHING_AVAILABLE:
            _wait(reader, timeout_s, unread or (lambda: f"splits {_splits_left(reader)}"))


def _wait(reader: SourceReader[Any], timeout_s: float, unread: Callable[[], str]) -> None:
    available = reader.is_available()
    check_made(f"{type(reader).__name__}.is_available()", available, concurrent.futures.Future)
    for turn_s in turns(timeout_s):
        if concurrent.futures.wait([available], turn_s).done:
            available.result()
            return
    raise ConnectorError(
        f"The reader had no records for {timeout_s:g} s before it reached the end of its ranges. Not read to the "
        f"end: {unread()}. Check that the external system answers; a reader must complete the future of "
        "is_available() when it has records."
    )


def _check_end(reader: SourceReader[Any]) -> None:
    if left := _splits_left(reader):
        raise ContractError(
            f"{type(reader).__name__}.poll_next() returned END_OF_INPUT, but snapshot_state() still returns splits: "
            f"{left}."
        )


def _splits_left(reader: SourceReader[Any]) -> str:
    left = reader.snapshot_state()
    check_splits(f"{type(reader).__name__}.snapshot_state()", left)
    return some_of([split.split_id for split in left])


def _bounded(planned: PlannedRange) -> SourceSplit:
    bounded = planned.bounded()
    check_bounded(planned.split, bounded)
    return bounded


@contextlib.contextmanager
def _closing(reader: SourceReader[Any]) -> Iterator[None]:
    """Closes ``reader`` at the end of the block.

    An error of ``close`` is only logged, because all records are emitted, or another error is being raised.
    """
    try:
        yield
    finally:
        try:
            reader.close()
        except Exception:
            log.warning("%s.close() failed", type(reader).__name__, exc_info=True)
