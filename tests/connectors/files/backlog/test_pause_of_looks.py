"""The time between two listings of a folder, of which the listings themselves are to take a small share."""

from __future__ import annotations

import pytest

from flip27_stream.connectors.files.backlog import listed_files
from flip27_stream.connectors.files.storage.found_file import FoundFile
from tests.connectors.files.support.folder_model import FolderModel, FolderQuery


class SlowFolder(FolderModel):
    """A folder with a clock. A listing takes ``takes_s`` seconds of that clock."""

    now_s = 1_000.0
    takes_s = 0.0
    listings = 0

    def monotonic(self) -> float:
        return self.now_s

    def __call__(self) -> list[FoundFile]:
        self.now_s += self.takes_s
        self.listings += 1
        return super().__call__()


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> SlowFolder:
    folder = SlowFolder()
    monkeypatch.setattr(listed_files, "time", folder)
    return folder


def seconds_until_next_listing(folder: SlowFolder, query: FolderQuery) -> int:
    """Lists a folder, and returns after how many seconds the folder is listed again."""
    query.files.look()
    before = folder.listings
    for seconds in range(1_000):
        query.files.look()
        if folder.listings > before:
            return seconds
        folder.now_s += 1
    raise AssertionError("the folder is not listed again")


def test_slow_listings_take_an_eighth_of_the_time(folder: SlowFolder) -> None:
    query = FolderQuery(folder)
    folder.takes_s = 10.0
    query.look()
    assert seconds_until_next_listing(folder, query) == 70


def test_one_listing_that_took_long_does_not_delay_the_next(folder: SlowFolder) -> None:
    """A process that is suspended in a listing finds new files when it goes on, however long it was suspended."""
    query = FolderQuery(folder)
    folder.takes_s = 600.0
    query.look()
    folder.takes_s = 0.0
    folder.put("new", 1)
    query.look_when_due()
    assert [file.path for file in query.take(1)] == ["new"]


def test_the_first_listing_does_not_delay_the_next(folder: SlowFolder) -> None:
    """A first listing of 600 seconds does not delay the next one: it read the event times of all files, or its
    process was suspended.
    """
    folder.takes_s = 600.0
    query = FolderQuery(folder)
    folder.takes_s = 0.0
    folder.put("new", 1)
    query.look_when_due()
    assert [file.path for file in query.take(1)] == ["new"]
