"""Offsets as the JSON documents in Spark's offset log."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator
from typing import Any

from flip27_stream.api import Source
from flip27_stream.errors import CheckpointError, ContractError, shortened
from flip27_stream.spark.planning.offset.adopted_offsets import AdoptedOffsets
from flip27_stream.spark.source_spec import SourceSpec
from offsets import INITIAL, OffsetCodec
from offsets.offset import AnyOffset

Document = dict[str, Any]


class OffsetLog:
    """Reads and writes the offsets of one source. Caches the last offset, because Spark usually passes it back next.

    Args:
        spec: The source, its event time and the options of alignment.
    """

    def __init__(self, spec: SourceSpec) -> None:
        self._source = source = spec.source
        self._codec: OffsetCodec[Any, Any] = OffsetCodec(
            spec.fingerprint,
            source.split_serializer,
            source.enumerator_checkpoint_serializer,
            spec.goes_on_as,
        )
        self._adopted = AdoptedOffsets(spec)
        self._last: tuple[Document, AnyOffset | None] = dict(INITIAL), None
        self._can_read = False
        self._logged = 0
        self._processed = -1

    def batch(self, start: Document, end: Document) -> tuple[AnyOffset | None, AnyOffset | None]:
        """Returns the offsets at both ends of a batch; ``None`` stands for the initial offset."""
        if not self._adopted.are_in(start if start != INITIAL else end):
            return self._codec.from_json(start), self._codec.from_json(end)
        if self._adopted.are_in(end):
            return self._adopted.batch(start, end)
        last = self._codec.from_json(end)
        return self._adopted.start(start, last.lineage if last is not None else None), last

    def read(self, document: Document) -> AnyOffset | None:
        """Returns the offset that a plan starts from; ``None`` for the initial offset."""
        last, offset = self._last
        if document != last:
            adopted = self._adopted.are_in(document)
            offset = self._adopted.start(document) if adopted else self._codec.from_json(document)
            self._last = document, offset
        return offset

    def write(self, offset: AnyOffset) -> Document:
        """Returns the document of ``offset``.

        The first document is parsed again before Spark stores it, so that a checkpoint never has an unreadable one.

        Raises:
            ContractError: A serializer failed, or does not read what it wrote.
        """
        with _writing(self._source):
            document = self._codec.to_json(offset)
        if not self._can_read:
            self._check(document)
            self._can_read = True
        self._last = document, offset
        return document

    def has_stored(self, checkpoint: Any) -> bool:
        """Returns whether the last document has this state of the enumerator; compares the JSON of both."""
        with _writing(self._source):
            return bool(self._last[0].get("enumerator") == self._codec.enumerator_to_json(checkpoint))

    def mark_processed(self, offset: AnyOffset) -> bool:
        """Records that everything before ``offset`` is processed; returns whether this was not recorded before."""
        is_new, self._processed = offset.batch != self._processed, offset.batch
        return is_new

    def record_logged(self, document: Document) -> None:
        """Records that ``document`` is in Spark's offset log: every restart goes on from it or from a later document.

        The first offset of a checkpoint is always in the log. With asynchronous progress tracking, many others are not.
        """
        if type(batch := document.get("batch")) is int:
            self._logged = max(self._logged, batch)

    def earlier_begins(
        self, start: AnyOffset | None, splits: Collection[str], new: Collection[str]
    ) -> dict[str, tuple[int, int]]:
        """Returns where the splits began, as far as the offset after ``start`` must repeat it.

        See :attr:`Offset.earlier_begins`.

        Args:
            start: The offset before.
            splits: The splits of the new offset.
            new: The splits of which the new offset itself says where they begin.
        """
        begins = start.begins_since(self._logged) if start is not None else {}
        return {split: begin for split, begin in begins.items() if split in splits and split not in new}

    def _check(self, document: Document) -> None:
        who = type(self._source).__name__
        stored = json.loads(json.dumps(document))
        try:
            again = self._codec.from_json(stored)
            assert again is not None
            written = self._codec.to_json(again)
        except Exception as e:
            raise ContractError(f"The serializers of {who} cannot read what they wrote. {_text(e)}") from e
        if written != stored:
            (name, *_) = [key for key in stored if stored[key] != written[key]]
            raise ContractError(
                f"The serializers of {who} do not read a state as they wrote it. Field {name!r} was written as "
                f"{shortened(repr(stored[name]))}, then read, and then written as {shortened(repr(written[name]))}."
            )


@contextlib.contextmanager
def _writing(source: Source[Any, Any]) -> Iterator[None]:
    try:
        yield
    except Exception as e:
        raise ContractError(f"A state of {type(source).__name__} cannot be stored. {_text(e)}") from e


def _text(error: Exception) -> str:
    return (
        str(error) if isinstance(error, CheckpointError | TypeError) else f"{type(error).__name__}: {error}"
    )
