"""The members of all groups of a table, read from its newest commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from watermark_alignment.group.group_log import KEY as MEMBER_KEY
from watermark_alignment.group.group_view import Entry
from watermark_alignment.table.batch_note import KEY as BATCH_KEY
from watermark_alignment.table.batch_note import BatchNote
from watermark_alignment.table.recordings import STORED_AT, Member

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """The newest information from a member.

    Attributes:
        entry: The newest entry of the member; ``None`` if it is older than the commits that were read.
        entry_at: The timestamp (ms) of the commit with the entry, by the clock of the member.
        stored_at: The time (ms) at which the store wrote that commit.
        note: The note on the newest batch of the member; ``None`` if it is older than the commits that were read.
    """

    entry: Entry | None = None
    entry_at: int = 0
    stored_at: int = 0
    note: BatchNote | None = None

    @property
    def reads(self) -> str:
        """A short name of the topics or paths that the source reads; empty if unknown."""
        return (self.entry.reads if self.entry is not None else "") or (self.note.reads if self.note else "")

    @property
    def max_drift_ms(self) -> int | None:
        """The option ``scan.watermark.alignment.max-drift`` of the source (ms); ``None`` if unknown."""
        if self.entry is not None and self.entry.max_drift_ms is not None:
            return self.entry.max_drift_ms
        return self.note.max_drift_ms if self.note is not None else None

    @property
    def max_drift_of_batch_ms(self) -> int | None:
        """The max-drift (ms) by which the newest batch was planned; ``None`` if unknown.

        It is that of the note, because the entry can be of a later run with another one. Without a note, it is that of
        the entry.
        """
        return self.note.max_drift_ms if self.note is not None else self.max_drift_ms

    @property
    def known_until(self) -> int:
        """The time (ms) up to which the member counts as alive, by its own clock; 0 if it has no recent entry."""
        if self.entry is None:
            return 0
        return self.entry_at if self.entry.left else self.entry_at + self.entry.timeout_ms

    def is_there(self, now: int) -> bool | None:
        """Returns whether the member is alive at ``now`` (ms); ``None`` if it has no recent entry.

        The age of the entry is by the clock of the store, since that of the member may differ. It is for monitoring
        only: members themselves use the time at which they read a changed entry.
        """
        if self.entry is None:
            return None
        return not self.entry.left and now - self.stored_at <= self.entry.timeout_ms

    def or_else(self, older: MemberInfo) -> MemberInfo:
        """Returns this information, completed with the fields of ``older``.

        Of two notes of one lineage, the one on the later batch is kept, also if it is in ``older``: a commit with an
        entry can have a note whose rows, and those of batches before, are written later.
        """
        about_itself = self if self.entry is not None else older
        return replace(about_itself, note=_later(self.note, older.note))


def members_in(commits: Iterable[Mapping[str, Any]]) -> dict[Member, MemberInfo]:
    """Returns the newest information from each member.

    Args:
        commits: The commits, newest first, as ``DeltaTable.history`` returns them.
    """
    infos: dict[Member, MemberInfo] = {}
    for commit in commits:
        note = _parsed(BatchNote.from_text, commit.get(BATCH_KEY))
        entry = _parsed(Entry.from_text, commit.get(MEMBER_KEY))
        for published in (note, entry):
            if published is not None:
                member = Member(published.group, published.source)
                at = int(commit.get("timestamp", 0))
                older = MemberInfo(entry, at, int(commit.get(STORED_AT, at)), note)
                infos[member] = infos.get(member, MemberInfo()).or_else(older)
    return infos


def entries_in(commits: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, Entry]]:
    """Yields the entries in ``commits`` and the timestamps (ms) of their commits, newest first."""
    for commit in commits:
        if (entry := _parsed(Entry.from_text, commit.get(MEMBER_KEY))) is not None:
            yield int(commit.get("timestamp", 0)), entry


def groups_in(commits: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the newest group of each source, by the source's lineage (the id of its checkpoint).

    Args:
        commits: The commits, newest first.
    """
    groups: dict[str, str] = {}
    for commit in reversed(commits):
        note = _parsed(BatchNote.from_text, commit.get(BATCH_KEY))
        entry = _parsed(Entry.from_text, commit.get(MEMBER_KEY))
        groups |= {published.lineage: published.group for published in (note, entry) if published is not None}
    return groups


def _later(note: BatchNote | None, older: BatchNote | None) -> BatchNote | None:
    if note is None or older is None:
        return note or older
    is_overtaken = note.lineage == older.lineage and note.batch < older.batch
    return older if is_overtaken else note


def _parsed(parse: Callable[[str], T], text: object) -> T | None:
    """Returns the parsed text; ``None`` without a text, or if another program wrote another value under this name."""
    try:
        return parse(text) if isinstance(text, str) else None
    except (ValueError, TypeError):
        return None
