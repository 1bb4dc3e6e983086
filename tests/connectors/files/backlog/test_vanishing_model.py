"""FI-01, FI-04, FI-12: files vanish, come back and are written anew in any sequence, with limits and restarts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_stream.connectors.files.formats.statistics import EventTimeOrder
from flip27_stream.errors import DataLossError
from tests.connectors.files.support.file_query import SECOND, FileQuery, write
from tests.connectors.files.support.folder_model import BY_TIME, FolderModel, FolderQuery
from tests.support.exploring import examples

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64())])
ROWS = 20


class Disk:
    """Two folders, and a third one to which files are moved away.

    Attributes:
        ids: First id of each file that is in one of the two folders.
        away: First id of each file that was moved away.
        rewritten: Ids of rows that were overwritten, read or not.
    """

    def __init__(self, root: Path) -> None:
        self.paths = [root / "a", root / "b"]
        self.ids: dict[Path, int] = {}
        self.away: dict[Path, int] = {}
        self.rewritten: set[int] = set()
        self._elsewhere = root / "elsewhere"
        self._numbers = count()
        for path in (*self.paths, self._elsewhere):
            path.mkdir()

    def add(self, path: Path) -> None:
        number = next(self._numbers)
        file = path / f"{number}.parquet"
        self._write(file, number)

    def _write(self, file: Path, number: int) -> None:
        write(file, number * 7 % 11 * 10 * SECOND + 1, ROWS, group=6, ids=number * ROWS)
        os.utime(file, (10**9 + number,) * 2)
        self.ids[file] = number * ROWS

    def take_away(self, file: Path) -> None:
        self.away[file] = self.ids.pop(file)
        file.rename(self._elsewhere / file.name)

    def bring_back(self, file: Path) -> None:
        self.ids[file] = self.away.pop(file)
        (self._elsewhere / file.name).rename(file)

    def rewrite(self, file: Path) -> None:
        """Writes a file with other rows under the same name, whether the file is in its folder or away."""
        old = self.ids.get(file, self.away.pop(file, None))
        assert old is not None
        self.rewritten |= set(range(old, old + ROWS))
        self._write(file, next(self._numbers))

    def bring_all_back(self) -> None:
        for file in list(self.away):
            self.bring_back(file)

    def there(self) -> set[int]:
        return {id_ for first in self.ids.values() for id_ in range(first, first + ROWS)}


class Run:
    """A query over a disk. If the query fails because files are away, they come back and the
    query is started again.
    """

    def __init__(self, disk: Disk, options: dict[str, str], drift: str | None) -> None:
        self.disk = disk
        paths = json.dumps([str(path) for path in disk.paths])
        fixed = {"paths": paths, "source.monitor-interval": "1 h", "files.modified": "read"}
        self.query = FileQuery({**fixed, **options}, max_drift=drift, available_now=False, schema=SCHEMA)
        self.step()

    def step(self) -> bool:
        with self._put_right():
            return self.query.step() is not None
        return True

    def look(self) -> None:
        if self.query.coordinator._enumerator is None:
            self.step()
            return
        files: Any = self.query.coordinator._enumerator._backlog  # type: ignore[attr-defined]
        files._not_before = 0.0
        with self._put_right():
            if (found := files.look()) is not None:
                files.take_in(found)

    def restart(self) -> None:
        self.query.restart()
        self.step()

    @contextmanager
    def _put_right(self) -> Iterator[None]:
        try:
            yield
        except DataLossError as error:
            if "overwritten" in str(error) or not self.disk.away:
                raise
            self.disk.bring_all_back()
            self.query.restart()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["add", "empty", "fill"]), st.integers(0, 1)),
        st.tuples(st.sampled_from(["away", "back", "rewrite"]), st.integers(0, 20)),
        st.tuples(st.sampled_from(["look", "step", "restart"]), st.just(0)),
    ),
    max_size=20,
)


@pytest.mark.long
@settings(max_examples=examples(200))
@given(
    at_first=st.integers(1, 4),
    steps=STEPS,
    limit=st.sampled_from(
        [{"maxFilesPerTrigger": "1"}, {"maxRowsPerTrigger": "8"}, {"maxBytesPerTrigger": "1"}, {}]
    ),
    drift=st.sampled_from([None, "5 s"]),
)
def test_every_row_is_read_once_or_the_query_fails_by_name(
    tmp_path_factory: pytest.TempPathFactory,
    at_first: int,
    steps: list[tuple[str, int]],
    limit: dict[str, str],
    drift: str | None,
) -> None:
    disk = Disk(tmp_path_factory.mktemp("disk"))
    for number in range(at_first):
        disk.add(disk.paths[number % 2])
    run = Run(disk, limit, drift)
    complaint = None
    try:
        for name, which in steps:
            perform(run, name, which)
        disk.bring_all_back()
        run.look()
        while run.step():
            assert len(run.query.rows) < 10_000
    except DataLossError as error:
        complaint = str(error)
    if complaint is None:
        assert disk.there() <= set(run.query.ids())
    else:
        assert "overwritten" in complaint
        assert disk.rewritten
    assert max(run.query.ids().values(), default=1) == 1


def perform(run: Run, name: str, which: int) -> None:
    disk = run.disk
    there, away = sorted(disk.ids), sorted(disk.away)
    match name:
        case "add":
            disk.add(disk.paths[which])
        case "empty":
            for file in (file for file in there if file.parent == disk.paths[which]):
                disk.take_away(file)
        case "fill":
            for file in (file for file in away if file.parent == disk.paths[which]):
                disk.bring_back(file)
        case "away" if there:
            disk.take_away(there[which % len(there)])
        case "back" if away:
            disk.bring_back(away[which % len(away)])
        case "rewrite" if there or away:
            disk.rewrite([*there, *away][which % len([*there, *away])])
        case "look" | "step" | "restart":
            getattr(run, name)()


MOVES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["away", "back", "rewrite"]), st.integers(0, 40)),
        st.tuples(st.sampled_from(["add", "take"]), st.integers(1, 6)),
        st.tuples(st.sampled_from(["look", "log", "restart"]), st.just(0)),
    ),
    max_size=40,
)


@given(at_first=st.integers(0, 40), moves=MOVES, order=st.sampled_from([None, BY_TIME]))
def test_many_files_that_vanish_and_come_back_in_sight_are_processed_once(
    at_first: int, moves: list[tuple[str, int]], order: EventTimeOrder | None
) -> None:
    """Files that vanish and come back in sight of a query are processed once, however few marks the checkpoint has."""
    query = moved(FolderQuery(FolderModel(), window=8, order=order), at_first, moves, restarts=False)
    assert set(query.read.values()) <= {1}
    assert set(query.folder()) <= set(query.read)


@given(at_first=st.integers(0, 30), moves=MOVES, order=st.sampled_from([None, BY_TIME]))
def test_files_that_vanish_and_come_back_around_restarts_are_processed_once(
    at_first: int, moves: list[tuple[str, int]], order: EventTimeOrder | None
) -> None:
    """Files that vanish and come back around restarts are processed once as long as the checkpoint has
    room for their marks.
    """
    query = moved(FolderQuery(FolderModel(), window=400, order=order), at_first, moves, restarts=True)
    assert set(query.read.values()) <= {1}
    assert set(query.folder()) <= set(query.read)


def moved(query: FolderQuery, at_first: int, moves: list[tuple[str, int]], *, restarts: bool) -> FolderQuery:
    """Returns the query after all moves, and after all files that were away came back."""
    folder, clock = query.folder, count()
    for _ in range(at_first):
        put(folder, next(clock))
    query.look()
    for name, which in moves:
        move(query, clock, name, which, restarts=restarts)
    for path in list(folder.away):
        folder.bring_back(path)
    query.take_all()
    return query


def put(folder: FolderModel, now: int, path: str | None = None) -> None:
    folder.put(path or f"file-{now}", now // 3 if path is None else now + 1000, now * 7 % 11, size=now + 1)


def move(query: FolderQuery, clock: count[int], name: str, which: int, *, restarts: bool) -> None:
    folder = query.folder
    there, away = sorted(folder.files), sorted(folder.away)
    match name:
        case "away" if there:
            folder.take_away(there[which % len(there)])
        case "back" if away:
            folder.bring_back(away[which % len(away)])
        case "rewrite" if away:
            path = away[which % len(away)]
            del folder.away[path]
            put(folder, next(clock), path)
        case "add":
            for _ in range(which):
                put(folder, next(clock))
        case "take":
            query.take(which)
        case "look" | "log":
            getattr(query, name)()
        case "restart" if restarts:
            query.start()
