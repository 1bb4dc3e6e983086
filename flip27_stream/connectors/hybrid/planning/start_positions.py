"""The start positions of splits of the next source whose first rows are also in the previous source."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from flip27_stream.api import SplitRange
from flip27_stream.connectors.hybrid.seam.origin import NamesOrigin
from flip27_stream.connectors.hybrid.split import HybridSourceSplit
from flip27_stream.errors import DataLossError, OptionError, some_of

log = logging.getLogger(__name__)


def check_templates(rule: NamesOrigin, known: Collection[str], assigned: Collection[str]) -> None:
    """Checks that the ids of splits which the rows of the previous source give are ids of the next source.

    Args:
        rule: The exact seam or the overlap.
        known: The ids that ``rule`` gives to the rows of the previous source.
        assigned: The ids of all splits of the next source.

    Raises:
        OptionError: No id is right, so every row that both sources have would be read twice.
    """
    wrong = sorted(set(known) - set(assigned))
    if not wrong or not assigned:
        return
    if len(wrong) == len(known):
        raise OptionError(
            f"{rule.what}'s split '{rule.split}' gives ids that no split of the next source has: '{wrong[0]}', while "
            f"that source has '{min(assigned)}'. All rows that both sources have would be read twice. Correct the "
            f"template{'' if rule.is_corrected_at_the_switch else ', and start with another checkpointLocation'}."
        )
    log.warning(
        "%s's split '%s' gives %d ids that no split of the next source has: %s. If these splits are in the next source "
        "under other ids, or come later, the rows that both sources have are read twice",
        rule.what,
        rule.split,
        len(wrong),
        some_of(wrong),
    )


def start_positions(
    positions: Mapping[HybridSourceSplit, int | None], ranges: Mapping[str, SplitRange], *, is_exact: bool
) -> dict[str, int]:
    """Returns the start positions of the splits that need other ones than their source chooses, by id in that source.

    At an exact seam a split begins after its last row in the previous source. With an overlap it does so only if its
    own source would begin later, because otherwise neither source would read the rows in between.

    Args:
        positions: The position of each split of the next source; ``None`` for a split that was not read yet.
        ranges: The ranges that the next source returns, by id in that source.
        is_exact: Whether the seam is exact.

    Raises:
        DataLossError: With an overlap, a split ends before its last row in the previous source, so it is not the log
            that was copied. At an exact seam the source itself reports a start after the end.
    """
    begins = {}
    for split, position in positions.items():
        r = ranges.get(split.serialized.id)
        if position is not None or r is None or not split.known:
            continue
        end = split.known[-1][1]
        if r.end < end and not (is_exact or r.final or r.limited):
            raise _is_another_log(split, end, r.end)
        if r.position > end and not is_exact:
            log.warning(
                "Split %s would begin at position %d, but the previous source has its rows only up to %d. It begins "
                "directly after these rows, so that the %d positions between are read",
                split.split_id,
                r.position,
                end - 1,
                r.position - end,
            )
        if r.position > end or (is_exact and r.position != end):
            begins[split.serialized.id] = end
    return begins


def replaced_logs(
    positions: Mapping[HybridSourceSplit, int | None], ranges: Mapping[str, SplitRange]
) -> set[str]:
    """Returns the splits whose log was replaced, or has lost its end, while they were read, by id in their source.

    They are read from an earlier position than they had reached, and the rows there are not those that the previous
    source has at these positions.

    Args:
        positions: The position of each split of the source; ``None`` for a split that was not read yet.
        ranges: The ranges that the source returns, by id in that source.
    """
    return {
        split.serialized.id
        for split, position in positions.items()
        if split.known and position is not None
        if (r := ranges.get(split.serialized.id)) is not None and r.position < position
    }


def _is_another_log(split: HybridSourceSplit, known: int, end: int) -> DataLossError:
    return DataLossError(
        f"Split {split.split_id} ends at position {end}, but the previous source has rows of it up to {known - 1}. "
        "Either the split was created again after it was copied, and its records cannot be distinguished from the "
        "copied records; or its last records are not visible yet, and a restart of the query helps. To read all "
        "records of the split, add the source without an overlap."
    )


def moved(ranges: Mapping[str, SplitRange], begins: Mapping[str, int]) -> dict[str, SplitRange]:
    """Returns ``ranges`` with the start positions ``begins``, by split id.

    It is used for splits for which the source returns no range when it is called again with these positions.
    """
    return {
        name: replace(r, position=at, end=max(r.end, at)) if (at := begins.get(name)) is not None else r
        for name, r in ranges.items()
    }
