"""Offsets that Spark's own source stored in a checkpoint before this project's source took its place."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any

from flip27_stream.api import AdoptedOffset
from flip27_stream.errors import DataLossError, ForeignCheckpointError, some_of
from flip27_stream.spark.planning.session_answers import ask
from flip27_stream.spark.source_contract import check_adopted
from flip27_stream.spark.source_spec import SourceSpec
from offsets import INITIAL, Offset, SplitState
from offsets.codec import MARKER
from offsets.offset import AnyOffset

log = logging.getLogger(__name__)

_ANSWER_S = 30.0

_FIRST = "Spark's own source planned its first batch in this checkpoint and did not commit it."
_REMEDY = (
    "Take the offsets from the file 'sources/<number of the source>/0' of the checkpoint and give them as option "
    "'startingOffsets' ('earliest' if the file has {}), or let Spark's own source finish the batch."
)

_BEFORE, _ADOPTED = 0, 1
"""The batch numbers of the offset before an adopted offset, and of the adopted offset."""


def first_begin(address: str, end: Mapping[str, Any], definition: str) -> Any:
    """Returns the offset at which the first batch that ends at ``end`` begins, as the session tells it.

    Args:
        address: The path of the socket of the session; empty without one.
        end: An offset of Spark's own source.
        definition: The definition of the source; see :class:`SourceSpec`.

    Returns:
        An offset of that source; ``None`` if the session does not know it or cannot be asked.
    """
    if not address:
        return None
    try:
        return ask(address, _ANSWER_S, what="first begin", end=end, definition=definition)
    except (OSError, ValueError) as error:
        log.warning("The session could not be asked where the first batch begins: %s", error)
        return None


class AdoptedOffsets:
    """Converts offsets of Spark's own source to offsets of this project, with :meth:`Source.adopt_offset`."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._lineage = secrets.token_hex(8)

    def are_in(self, document: Any) -> bool:
        """Returns whether ``document`` is an offset of another source, from which this source can continue."""
        # In offsets of this project the marker has a number. In those of Spark's Kafka source the same key is a topic.
        if not isinstance(document, Mapping) or isinstance(document.get(MARKER), int):
            return False
        return self._spec.source.adopt_offset(document) is not None

    def start(self, document: Mapping[str, Any], lineage: str | None = None) -> AnyOffset:
        """Returns the start offset of a batch that this source has planned after an offset of Spark's own source.

        Args:
            document: An offset for which :meth:`are_in` is true.
            lineage: The lineage (checkpoint id) of the offset that ends the batch; by default that of this process.
        """
        return self._offset(document, lineage or self._lineage, _ADOPTED, {})

    def batch(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> tuple[AnyOffset | None, AnyOffset]:
        """Returns both offsets of a batch that Spark's own source has planned and not committed.

        The batch is read again as it was planned.

        Raises:
            ForeignCheckpointError: It is the first batch, and neither the session nor the options have the
                positions where it begins; or those of the options are after its end.
            DataLossError: The batch ends before it begins, which Spark's own source plans if records were lost.
        """
        if start == INITIAL:
            first_start = first_begin(self._spec.driver.session, end, self._spec.definition)
            if not self.are_in(first_start):
                return None, self._first(end)
            assert first_start is not None
            start = first_start
        before = self._offset(start, self._lineage, _BEFORE, {})
        adopted = self._spec.source.adopt_offset(end)
        assert adopted is not None
        _check_order(before, adopted)
        here = {split.split_id for split, _ in adopted.splits}
        new = here - before.splits.keys()
        if gone := sorted(before.splits.keys() - here):
            log.warning(
                "Spark's own source planned a batch of this checkpoint without %s, which the batch before it has: the "
                "topics or partitions were deleted, and records in them that were not read are lost",
                some_of(gone),
            )
        return before, self._offset(end, self._lineage, _ADOPTED, dict.fromkeys(new, adopted.later_begin))

    def _first(self, end: Mapping[str, Any]) -> AnyOffset:
        adopted = self._spec.source.adopt_offset(end)
        assert adopted is not None
        begins = adopted.first_begins
        unknown = sorted({split.split_id for split, _ in adopted.splits} - begins.keys())
        if unknown:
            raise ForeignCheckpointError(
                f"{_FIRST} The positions at which the batch begins are not in the offset log, and not certain from "
                f"the options, for {', '.join(unknown)}. {_REMEDY}"
            )
        for split, position in adopted.splits:
            if position < begins[split.split_id]:
                raise ForeignCheckpointError(
                    f"{_FIRST} Split '{split.split_id}' ends in it at position {position}, but would begin at "
                    f"{begins[split.split_id]} by option 'startingOffsets', which the batch did not have. {_REMEDY}"
                )
        return self._offset(end, self._lineage, _ADOPTED, begins)

    def _offset(
        self, document: Mapping[str, Any], lineage: str, batch: int, begin: Mapping[str, int]
    ) -> AnyOffset:
        adopted = self._spec.source.adopt_offset(document)
        assert adopted is not None
        check_adopted(self._spec.source, adopted)
        return Offset(
            source=self._spec.fingerprint,
            lineage=lineage,
            batch=batch,
            enumerator=adopted.checkpoint,
            splits={split.split_id: SplitState(split, position) for split, position in adopted.splits},
            begin=begin,
            plausible_until=None,
        )


def _check_order(before: AnyOffset, adopted: AdoptedOffset[Any, Any]) -> None:
    for split, position in adopted.splits:
        begin = before.splits.get(split.split_id)
        if begin is not None and position < begin.position:
            raise DataLossError(
                f"Spark's own source planned a batch of this checkpoint and did not commit it, and the batch reads "
                f"split '{split.split_id}' from position {begin.position} back to {position}: the topic was deleted "
                "and created again, or its log lost its end. Let Spark's own source finish the batch, with option "
                "'failOnDataLoss' set to false, and then start this source."
            )
