"""The members of the groups of a table, read from its newest commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from watermark_alignment.group.group_log import KEY as MEMBER_KEY
from watermark_alignment.group.group_view import Entry
from watermark_alignment.table.batch_note import KEY as BATCH_KEY
from watermark_alignment.table.batch_note import BatchNote
from watermark_alignment.table.recordings import Member

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemberNews:
    """The newest of what a member has told.

    Attributes:
        entry: what it says of itself; ``None`` if that is longer ago than the commits that were looked at.
        told_at: when it said so, by its own clock (ms).
        note: on its newest batch; ``None`` likewise.
    """

    entry: Entry | None = None
    told_at: int = 0
    note: BatchNote | None = None

    @property
    def reads(self) -> str:
        """What the source reads, in few words; empty where it has not told lately."""
        return (self.entry.reads if self.entry is not None else "") or (self.note.reads if self.note else "")

    def is_there(self, now: int) -> bool | None:
        """Whether it is alive, as far as the clocks agree; ``None`` if it has said nothing for long.

        Members judge by what they see change, not by these clocks.
        """
        if self.entry is None:
            return None
        return not self.entry.left and now - self.told_at <= self.entry.timeout_ms

    def or_else(self, older: MemberNews) -> MemberNews:
        """This, and where it tells nothing what ``older`` tells."""
        about_itself = self if self.entry is not None else older
        return replace(about_itself, note=self.note or older.note)


def members_told_of(commits: Iterable[Mapping[str, Any]]) -> dict[Member, MemberNews]:
    """What commits tell, newest first, as ``DeltaTable.history`` gives them."""
    news: dict[Member, MemberNews] = {}
    for commit in commits:
        note = _parsed(BatchNote.from_text, commit.get(BATCH_KEY))
        entry = _parsed(Entry.from_text, commit.get(MEMBER_KEY))
        for told in (note, entry):
            if told is not None:
                member = Member(told.group, told.source)
                older = MemberNews(entry, int(commit.get("timestamp", 0)), note)
                news[member] = news.get(member, MemberNews()).or_else(older)
    return news


def entries_told_of(commits: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, Entry]]:
    """What members said of themselves, newest first, and when (ms)."""
    for commit in commits:
        if (entry := _parsed(Entry.from_text, commit.get(MEMBER_KEY))) is not None:
            yield int(commit.get("timestamp", 0)), entry


def _parsed(parse: Callable[[str], T], text: object) -> T | None:
    """``None`` for what is not there, or another program may have written under our name."""
    try:
        return parse(text) if isinstance(text, str) else None
    except (ValueError, TypeError):
        return None
