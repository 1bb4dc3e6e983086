"""Offsets as the documents that Spark keeps."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator
from typing import Any

from flip27_stream.api import Source
from flip27_stream.errors import CheckpointError, ContractError, shortened
from flip27_stream.spark.planning.adopted_offsets import AdoptedOffsets
from flip27_stream.spark.source_spec import AnyOffset, SourceSpec
from offsets import INITIAL, OffsetCodec

Document = dict[str, Any]


class OffsetLog:
    """Reads and writes the offsets of the source of a job; keeps the last one, which most often comes back."""

    def __init__(self, spec: SourceSpec) -> None:
        self._source = source = spec.source
        self._codec: OffsetCodec[Any, Any] = OffsetCodec(
            spec.fingerprint,
            source.split_serializer,
            source.enumerator_checkpoint_serializer,
            spec.accepts_checkpoint_of,
        )
        self._adopted = AdoptedOffsets(spec)
        self._last: tuple[Document, AnyOffset | None] = dict(INITIAL), None
        self._can_read = False
        self._logged = 0

    def batch(self, start: Document, end: Document) -> tuple[AnyOffset | None, AnyOffset | None]:
        """The offsets at both ends of a batch; ``None`` for the initial one."""
        if not self._adopted.are_in(start if start != INITIAL else end):
            return self._codec.from_json(start), self._codec.from_json(end)
        if self._adopted.are_in(end):
            return self._adopted.batch(start, end)
        last = self._codec.from_json(end)
        return self._adopted.start(start, last.lineage if last is not None else None), last

    def read(self, document: Document) -> AnyOffset | None:
        """The same, for the document that a plan starts from."""
        last, offset = self._last
        if document != last:
            adopted = self._adopted.are_in(document)
            offset = self._adopted.start(document) if adopted else self._codec.from_json(document)
            self._last = document, offset
        return offset

    def write(self, offset: AnyOffset) -> Document:
        """The document of ``offset``.

        Raises:
            ContractError: the serializers don't read what they write. The first document is read again, for then
                nothing is stored yet that cannot be.
        """
        with _writing(self._source):
            document = self._codec.to_json(offset)
        if not self._can_read:
            self._check(document)
            self._can_read = True
        self._last = document, offset
        return document

    def has_stored(self, checkpoint: Any) -> bool:
        """Whether the last document has this state of the enumerator; it may be the same object, and changed since."""
        with _writing(self._source):
            return bool(self._last[0].get("enumerator") == self._codec.enumerator_to_json(checkpoint))

    def logged(self, document: Document) -> None:
        """Spark goes on from this offset or a later one, whatever happens.

        The first of a checkpoint is always in its log; with asynchronous progress tracking many others never are.
        """
        if type(batch := document.get("batch")) is int:
            self._logged = max(self._logged, batch)

    def begun(self, start: AnyOffset | None, splits: Collection[str]) -> dict[str, tuple[int, int]]:
        """What the offset after ``start`` has to repeat of where ``splits`` began, see :class:`Offset`."""
        told = start.begins_since(self._logged) if start is not None else {}
        return {split: begin for split, begin in told.items() if split in splits}

    def _check(self, document: Document) -> None:
        who = type(self._source).__name__
        stored = json.loads(json.dumps(document))
        try:
            again = self._codec.from_json(stored)
            assert again is not None
            written = self._codec.to_json(again)
        except Exception as e:
            raise ContractError(f"The serializers of {who} do not read what they write. {_text(e)}") from e
        if written != stored:
            (name, *_) = [key for key in stored if stored[key] != written[key]]
            raise ContractError(
                f"The serializers of {who} do not read what they write. {name!r} was written as "
                f"{shortened(repr(stored[name]))}; once it is read it is written as {shortened(repr(written[name]))}."
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
