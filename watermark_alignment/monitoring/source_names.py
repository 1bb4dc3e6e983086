"""Names of sources for people: the id that the user gave, otherwise what the source reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from watermark_alignment.group.member_news import MemberNews
from watermark_alignment.table.recordings import Member

_DERIVED: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{16}")
"""The form of the id of a source without ``scan.source.id``; see :meth:`AlignmentOptions.name_of_source`."""


def source_names(news: Mapping[Member, MemberNews], members: Iterable[Member]) -> dict[Member, str]:
    """Returns a name for each member, unique among them.

    Args:
        news: The latest reports of members.
        members: All members that have rows in the table.

    Returns:
        ``scan.source.id`` if it was set, or if it is unknown what the source reads. Otherwise the topic or path that it
        reads. If several such sources read the same, later ones have a number after it.
    """
    names: dict[Member, str] = {}
    unnamed: list[tuple[int, Member, str]] = []
    for member in dict.fromkeys([*members, *news]):
        told = news.get(member, MemberNews())
        if told.reads and _DERIVED.fullmatch(member.source):
            unnamed.append((told.entry.began if told.entry is not None else 0, member, told.reads))
        else:
            names[member] = member.source
    taken = set(names.values())
    for _, member, reads in sorted(unnamed):
        numbered = (f"{reads} ({number})" for number in range(2, len(unnamed) + len(taken) + 3))
        names[member] = next(name for name in (reads, *numbered) if name not in taken)
        taken.add(names[member])
    return names
