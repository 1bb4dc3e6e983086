"""A source of one's own whose client waits for an answer: an HTTP server of logs, each of which is a split.

``GET /`` returns the number of lines of each log as JSON, and ``GET /clicks?from=3`` some lines of a log from 3 on.
Each line begins with its event time (ms) and a space. The header ``Sealed`` has the number of lines of a log to which
nothing will be added.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse

import pyarrow as pa

from flip27_stream import api, reader

SCHEMA = pa.schema(
    {"log": "string", "number": "int64", "timestamp": pa.timestamp("us", "UTC"), "text": "string"}
)
Sealed = dict[str, int]


@dataclass(frozen=True)
class RemoteLog(reader.RangeSplit):
    name: str

    @property
    def split_id(self) -> str:
        return self.name


@dataclass(frozen=True)
class FoundLogs:
    names: tuple[str, ...] = ()


Context = api.SplitEnumeratorContext[RemoteLog]


def check_status(answer: HTTPResponse, asked: str) -> None:
    if answer.status != HTTPStatus.OK:
        raise ConnectionError(f"The server answered the request for {asked} with status {answer.status}.")


class LogClient(reader.SplitReader[RemoteLog]):
    """Fetches lines, in a thread of its own. ``sealed`` gets the lengths of logs that are sealed."""

    def __init__(self, server: str, sealed: Sealed) -> None:
        self._connection, self._sealed = HTTPConnection(server, timeout=10), sealed
        self._logs: dict[str, RemoteLog] = {}
        self._woken = threading.Event()

    def handle_splits_changes(self, change: reader.SplitsChange[RemoteLog]) -> None:
        for log in change.splits:
            if isinstance(change, reader.SplitsRemoval):
                self._logs.pop(log.name, None)
            else:
                self._logs[log.name] = log

    def fetch(self) -> reader.RecordsWithSplitIds:
        name, log = next(iter(self._logs.items()))
        try:
            self._connection.connect()
            lines, sealed = ([], None) if self._woken.is_set() else self._ask(log)
        except (OSError, HTTPException):
            if not self._woken.is_set():
                raise
        finally:
            self._connection.close()
        if self._woken.is_set():  # The answer may be cut off, so it is fetched again.
            self._woken.clear()
            return reader.RecordsWithSplitIds()
        if not lines:
            raise ConnectionError(f"The server has no line {log.start} of {name}, which was planned.")
        if sealed is not None:
            self._sealed[name] = int(sealed)
        positions = pa.array(range(log.start, log.start + len(lines)), pa.int64())
        self._logs[name] = rest = log.between(log.start + len(lines), log.end)
        finished = [name] if rest.start == log.end else []
        for one in finished:
            del self._logs[one]
        return reader.RecordsWithSplitIds({name: [reader.Records(lines, positions=positions)]}, finished)

    def _ask(self, log: RemoteLog) -> tuple[list[str], str | None]:
        self._connection.request("GET", f"/{log.name}?from={log.start}")
        with self._connection.getresponse() as answer:
            check_status(answer, log.name)
            lines = answer.read().decode().split("\n")[:-1]
        return lines[: log.end - log.start], answer.headers["Sealed"]

    def wake_up(self) -> None:
        self._woken.set()
        if (waiting := self._connection.sock) is not None:
            with suppress(OSError):  # The fetch has just ended.
                waiting.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._connection.close()


class LineEmitter(reader.RecordEmitter[RemoteLog]):
    """Converts lines to columns."""

    def emit_records(
        self, records: reader.Records, output: api.SourceOutput, progress: reader.SplitProgress[RemoteLog]
    ) -> None:
        times, texts = zip(*(line.split(" ", 1) for line in records.rows), strict=True)
        timestamps = pa.array(map(int, times), pa.int64())
        at = timestamps.cast(pa.timestamp("ms", "UTC")).cast(SCHEMA.field("timestamp").type)
        names = [progress.split.name] * len(records)
        columns = [pa.array(names), records.positions, at, pa.array(texts)]
        output.collect(pa.record_batch(columns, schema=SCHEMA), timestamps, records.positions)


class LogServerReader(reader.SourceReaderBase[RemoteLog]):
    """Reads the logs of a task, each in a thread, and tells the enumerator of those that are sealed and read."""

    def __init__(self, context: api.SourceReaderContext, server: str) -> None:
        self._context, self._sealed = context, Sealed()
        clients = reader.FetcherPerSplitManager(lambda: LogClient(server, self._sealed))
        super().__init__(context, clients, LineEmitter())

    def on_split_finished(self, finished: Sequence[reader.SplitProgress[RemoteLog]]) -> None:
        for log in finished:
            if log.end is not None and self._sealed.get(log.split.name) == log.end:
                event = api.SourceEvent("sealed", [log.split.name, log.end])
                self._context.send_source_event_to_coordinator(event)


class LogServerEnumerator(api.SplitEnumerator[RemoteLog, FoundLogs]):
    def __init__(self, server: str, context: Context, state: FoundLogs) -> None:
        self._server, self._context, self._state = server, context, state
        self._sealed = Sealed()

    def start(self) -> None:
        self._context.call_async(self._lengths, self._assign)
        self._context.call_async(self._lengths, self._assign, initial_delay_ms=100, period_ms=100)

    def _lengths(self) -> dict[str, int]:
        connection = HTTPConnection(self._server, timeout=10)
        try:
            connection.request("GET", "/")
            with connection.getresponse() as answer:
                check_status(answer, "all logs")
                lengths: dict[str, int] = json.load(answer)
            return lengths
        except HTTPException as error:
            raise ConnectionError(f"{self._server} gave no whole answer: {error}") from error
        finally:
            connection.close()

    def _assign(self, lengths: Mapping[str, int], error: BaseException | None) -> None:
        if error is not None:
            raise error
        for number, name in enumerate(
            sorted(lengths.keys() - set(self._state.names)), len(self._state.names)
        ):
            self._context.assign_split(RemoteLog(name), number % self._context.current_parallelism())
            self._state = FoundLogs((*self._state.names, name))

    def split_ranges(self, positions: Mapping[RemoteLog, int | None]) -> Mapping[str, api.SplitRange]:
        lengths = self._lengths()
        # A log that is away keeps its position, since it is left out.
        there = {log.name: at or 0 for log, at in positions.items() if log.name in lengths}
        return {name: api.SplitRange(at, lengths[name]) for name, at in there.items()}

    def handle_source_event(self, subtask_id: int, event: api.SourceEvent) -> None:
        if event.name == "sealed" and isinstance(event.payload, list):
            name, length = event.payload
            self._sealed[str(name)] = int(str(length))

    def notify_checkpoint_complete(self, positions: Mapping[str, int]) -> None:
        """Retires sealed logs that the query has processed to their ends: later offsets have only their names."""
        done = [name for name, length in self._sealed.items() if positions.get(name) == length]
        self._context.retire_splits(done)
        for name in done:
            del self._sealed[name]

    def snapshot_state(self) -> FoundLogs:
        return self._state


@dataclass(frozen=True)
class LogServer(api.Source[RemoteLog, FoundLogs]):
    server: str
    boundedness = api.Boundedness.CONTINUOUS_UNBOUNDED
    schema = SCHEMA
    split_serializer = reader.DataclassSerializer(RemoteLog)
    enumerator_checkpoint_serializer = reader.DataclassSerializer(FoundLogs)

    @property
    def fingerprint(self) -> str:
        return f"logs of {self.server}"

    def create_reader(self, context: api.SourceReaderContext) -> LogServerReader:
        return LogServerReader(context, self.server)

    def create_enumerator(self, context: Context) -> LogServerEnumerator:
        return LogServerEnumerator(self.server, context, FoundLogs())

    def restore_enumerator(self, context: Context, checkpoint: FoundLogs) -> LogServerEnumerator:
        return LogServerEnumerator(self.server, context, checkpoint)
