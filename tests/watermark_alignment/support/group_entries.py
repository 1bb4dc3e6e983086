"""Entries of members for the tests of groups."""

from __future__ import annotations

from dataclasses import replace

from watermark_alignment.group.group_view import Entry, GroupView

TIMEOUT = 1000


def entry(source: str, watermark: int | None = None, **changes: object) -> Entry:
    """Returns the entry of a source in its first run, with its own lineage and definition."""
    told = Entry(
        group="g",
        source=source,
        lineage=f"{source}-lineage",
        run="1",
        began=1,
        definition=f"{source}-definition",
        where=f"process of {source}",
        timeout_ms=TIMEOUT,
        watermark=watermark,
    )
    return replace(told, **changes)  # type: ignore[arg-type]


def seen(*entries: Entry, now: int = 0) -> GroupView:
    """Returns the view of a member that reads these entries, each from one commit, at one moment."""
    view = GroupView()
    for version, told in enumerate(entries):
        view = view.after(version, told, now)
    return view
