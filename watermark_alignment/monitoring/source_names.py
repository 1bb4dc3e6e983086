"""Names of sources for people: the id that the user gave, otherwise the topic or path that the source reads.

:mod:`watermark_alignment.monitoring.dashboard` makes the same names with Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import takewhile

from watermark_alignment.formatting import HYBRID, NUMBER
from watermark_alignment.group.member_info import MemberInfo
from watermark_alignment.options import DERIVED_ID
from watermark_alignment.table.recordings import Member


def source_names(
    infos: Mapping[Member, MemberInfo], splits: Mapping[Member, Iterable[str]]
) -> dict[Member, str]:
    """Returns a name for each member, unique among them.

    Args:
        infos: The newest information from each member.
        splits: All members that have rows in the table, with the ids of their splits; those of the members that
            :func:`named_by_splits` does not return can be left out.

    Returns:
        ``scan.source.id`` if it was set. Otherwise the topic or path that the source reads, or if that is unknown, the
        common part of the ids of its splits. If several sources have the same name, the later ones get a number.
    """
    names: dict[Member, str] = {}
    unnamed: list[tuple[int, Member, str]] = []
    for member in dict.fromkeys([*splits, *infos]):
        info = infos.get(member, MemberInfo())
        reads = info.reads or _in_common(splits.get(member, ()))
        if reads and _is_derived(member):
            unnamed.append((info.entry.began if info.entry is not None else 0, member, reads))
        else:
            names[member] = member.source
    taken = set(names.values())
    for _, member, reads in sorted(unnamed):
        numbered = (f"{reads} ({number})" for number in range(2, len(unnamed) + len(taken) + 3))
        names[member] = next(name for name in (reads, *numbered) if name not in taken)
        taken.add(names[member])
    return names


def named_by_splits(infos: Mapping[Member, MemberInfo], members: Iterable[Member]) -> list[Member]:
    """Returns the members whose names :func:`source_names` takes from the ids of their splits."""
    return [m for m in members if _is_derived(m) and not infos.get(m, MemberInfo()).reads]


def _is_derived(member: Member) -> bool:
    return re.fullmatch(DERIVED_ID, member.source) is not None


def _in_common(splits: Iterable[str]) -> str:
    """Returns the common part of the ids of splits, such as their topic; "" without splits."""
    ids = sorted(re.sub(HYBRID, "", split) for split in splits)
    if not ids:
        return ""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(ids[0], ids[-1], strict=False))
    begin = re.sub(NUMBER, "", "".join(first for first, _ in same)).rstrip("-_./:")
    return begin or f"{re.sub(NUMBER, '', ids[0]) or ids[0]} and others"
