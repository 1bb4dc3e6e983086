"""Listings that hang, as on a network file system that does not answer. The tests simulate the
hang, without a JVM.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flip27_stream.connectors.files import FileSource
from flip27_stream.connectors.files.storage.filesystem import Storage
from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.connectors.files.storage.listing import FileListing
from flip27_stream.connectors.files.storage.local_listing import LocalWalk
from flip27_stream.connectors.files.storage.watched_listing import WatchedListing
from flip27_stream.errors import UnreachableError
from flip27_stream.local_calls import LocalCall
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.files.support.file_query import write


class Mount:
    """A file system that lists a folder only while ``answers`` is set. It counts the listings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.calls = 0
        walk = LocalWalk._in_folder

        def in_folder(walker: LocalWalk, folder: str, inside: bool) -> Iterator[FoundFile]:
            self.calls += 1
            for file in walk(walker, folder, inside):
                assert self.answers.wait(60)
                yield file

        monkeypatch.setattr(LocalWalk, "_in_folder", in_folder)


@pytest.fixture
def mount(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mount]:
    monkeypatch.setattr(LocalCall, "time_limit_s", 0.2)
    mount = Mount(monkeypatch)
    yield mount
    mount.answers.set()


@pytest.fixture
def listing(tmp_path: Path) -> WatchedListing:
    for name in "ab":
        (tmp_path / name).write_text("there")
    return WatchedListing(FileListing(Storage(), (str(tmp_path),)))


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "flip27-local-call"}


def test_a_listing_that_hangs_is_an_error_and_keeps_one_thread(
    mount: Mount, listing: WatchedListing, tmp_path: Path
) -> None:
    mount.answers.clear()
    before = threads()
    for _ in range(5):
        with pytest.raises(UnreachableError, match=f"Listing {tmp_path} hangs"):
            listing()
    assert len(threads() - before) <= 1
    assert mount.calls == 1
    mount.answers.set()
    assert len(listing()[str(tmp_path)]) == 2
    assert mount.calls == 1
    (tmp_path / "c").write_text("new")
    assert len(listing()[str(tmp_path)]) == 3


def test_errors_are_those_of_the_listing(tmp_path: Path) -> None:
    listing = WatchedListing(FileListing(Storage(), (str(tmp_path / "nowhere"),)))
    for _ in range(2):
        with pytest.raises(UnreachableError, match=r"Path '.*nowhere' does not exist"):
            listing()


def test_a_query_whose_listing_hangs_fails_by_name(mount: Mount, tmp_path: Path) -> None:
    """A hanging listing fails the query with the folder's name: when columns are looked for, and when
    files are looked for.
    """
    write(tmp_path / "in" / "0.parquet", 1)
    source = FileSource({"path": str(tmp_path / "in")})
    schema = source.schema
    mount.answers.clear()
    with pytest.raises(UnreachableError, match="in hangs: nothing was found for"):
        FileSource({"path": str(tmp_path / "in")}).schema  # noqa: B018 - reads the file
    source = FileSource({"path": str(tmp_path / "in")}, schema=schema)
    with (
        pytest.raises(UnreachableError, match="in hangs: nothing was found for"),
        SourceQuery(source) as query,
    ):
        query.wait_for_batch()
