"""The example source with source events: enumerator and readers exchange events, and a reader can be made to fail.

The enumerator writes the events that it receives to a file, for a test in another process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.log_folder import AssignedFiles, Context, LogFile, LogFolder, LogFolderEnumerator, read_lines
from flip27_stream.api import InputStatus, ReaderOutput, SourceEvent, SourceReaderContext
from flip27_stream.reader import IteratorSourceReader

BROKEN = "broken"
"""While a file with this name is in the folder, tasks fail after some rows."""


class EchoEnumerator(LogFolderEnumerator):
    """An enumerator that sends an event to each reader, and writes down the calls that it receives."""

    def add_reader(self, subtask_id: int) -> None:
        self._hear(f"reader {subtask_id}")
        self._context.send_event_to_source_reader(subtask_id, SourceEvent("greeting", {"to": subtask_id}))

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        self._hear(f"event of {subtask_id}: {event.name} {event.payload}")

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        self._hear(f"request of {subtask_id} at {requester_hostname}")

    def add_splits_back(self, splits: Sequence[LogFile], subtask_id: int) -> None:
        self._hear(f"back {[split.split_id for split in splits]}")

    def _hear(self, what: str) -> None:
        with open(self._folder / "heard", "a") as heard:
            heard.write(f"{what}\n")


class EchoReader(IteratorSourceReader[LogFile]):
    """A reader that sends the received events back when it has read all rows."""

    def __init__(self, context: SourceReaderContext, folder: str) -> None:
        super().__init__(context, LogFolder.schema, lambda split: _lines(split, Path(folder) / BROKEN))
        self._context = context
        self._greetings: list[SourceEvent] = []

    def handle_source_events(self, event: SourceEvent) -> None:
        self._greetings.append(event)

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        status = super().poll_next(output)
        if status is InputStatus.END_OF_INPUT:
            for event in self._greetings:
                self._context.send_source_event_to_coordinator(SourceEvent("echo", event.payload))
            self._context.send_split_request()
        return status


def _lines(split: LogFile, broken: Path) -> Iterator[dict[str, object]]:
    for row in read_lines(split):
        if row["number"] == split.start + 2 and broken.exists():
            raise OSError("a bad sector")
        yield row


@dataclass(frozen=True)
class EchoFolder(LogFolder):
    def create_reader(self, context: SourceReaderContext) -> EchoReader:
        return EchoReader(context, self.folder)

    def create_enumerator(self, context: Context) -> EchoEnumerator:
        return EchoEnumerator(self.folder, context, AssignedFiles())

    def restore_enumerator(self, context: Context, checkpoint: AssignedFiles) -> EchoEnumerator:
        return EchoEnumerator(self.folder, context, checkpoint)
