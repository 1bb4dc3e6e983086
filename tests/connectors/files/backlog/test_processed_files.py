"""FI-01, FI-04, FI-12: no file is missed and no file is read twice. The state of processed files stays bounded."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.files.backlog import digest
from flip27_stream.connectors.files.backlog.listed_files import ModifiedFiles
from flip27_stream.connectors.files.backlog.processed_files import ProcessedFilesState
from flip27_stream.connectors.files.formats.statistics import EventTimeOrder
from flip27_stream.errors import DataLossError
from tests.connectors.files.support.folder_model import BY_TIME, FolderModel, FolderQuery

WINDOW = 8


@pytest.fixture(scope="module", autouse=True)
def few_buckets() -> Iterator[None]:
    """The digest has two buckets, too few to stand for the marks that a state has to keep."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest, "BUCKETS", 2)
        yield


@contextmanager
def warnings() -> Iterator[list[str]]:
    """Yields a list of the warnings that are logged until the block ends."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("flip27_stream.connectors.files.backlog")
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)


ORDERS = st.sampled_from([None, BY_TIME])
TIMES = st.one_of(st.none(), st.integers(0, 50))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 12), TIMES),
        st.tuples(st.just("remove"), st.integers(0, 30)),
        st.tuples(st.just("modify"), st.integers(0, 30)),
        st.tuples(st.just("look")),
        st.tuples(st.just("take"), st.integers(1, 6)),
        st.tuples(st.just("log")),
        st.tuples(st.just("restart")),
    ),
    max_size=30,
)


class ModificationTimes:
    """Modification times that grow. Several files have the same one."""

    def __init__(self) -> None:
        self.now = 0
        self.names = 0

    def name(self) -> str:
        self.names += 1
        return f"file-{self.names}"

    def tick(self) -> int:
        self.now += 1
        return self.now


def bounded(state: ProcessedFilesState) -> bool:
    most = WINDOW + 6
    return len(state.recent) <= most and len(state.late) <= WINDOW and len(state.buckets) <= digest.BUCKETS


@given(STEPS, ORDERS, st.integers(0, 40))
def test_files_are_read_once_where_modification_times_grow(
    steps: list[tuple[object, ...]], order: EventTimeOrder | None, at_first: int
) -> None:
    """FI-04: files appear, vanish, and are modified; a modified file is read again. The process ends at any point."""
    folder, clock = FolderModel(), ModificationTimes()
    for number in range(at_first):
        folder.put(clock.name(), number // 3, number * 7 % 11)
    clock.now = at_first
    query = FolderQuery(folder, window=WINDOW, order=order)
    with warnings() as said:
        for step in steps:
            perform(query, clock, step)
            assert bounded(query.state)
        query.take_all()
        query.start()
    assert all(count == 1 for count in query.read.values())
    assert set(folder()) <= set(query.read)
    assert bounded(query.state)
    assert not len(query.files)
    assert not said or any(step[0] in ("remove", "modify") for step in steps)


def perform(query: FolderQuery, clock: ModificationTimes, step: tuple[object, ...]) -> None:
    folder = query.folder
    there = sorted(folder.files)
    match step:
        case ["add", int(count), int() | None as time]:
            modified = clock.tick()
            for _ in range(count):
                folder.put(clock.name(), modified, time)
        case ["remove", int(which)] if there:
            folder.remove(there[which % len(there)])
        case ["modify", int(which)] if there:
            path = there[which % len(there)]
            folder.put(path, clock.tick(), folder.times[path])
        case ["look"]:
            query.look()
        case ["take", int(count)]:
            query.take(count)
        case ["log"]:
            query.log()
        case ["restart"]:
            query.start()


ARRIVALS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 60), TIMES), max_size=5),
        st.integers(0, 8),
        st.booleans(),
    ),
    max_size=20,
)


@given(ARRIVALS, ORDERS, st.integers(0, 40))
def test_late_files_are_read_once_if_a_look_found_them(
    arrivals: list[tuple[list[tuple[int, int | None]], int, bool]],
    order: EventTimeOrder | None,
    at_first: int,
) -> None:
    """Files come with any modification time, in sight of a query whose offset is written before it ends.

    A restart cannot tell for sure which files came late if they are more than the marks of late files.
    """
    folder = FolderModel()
    for number in range(at_first):
        folder.put(f"first-{number}", number, number * 7 % 11)
    query, too_many = FolderQuery(folder, window=WINDOW, order=order), False
    with warnings() as said:
        for number, (files, processed, restarted) in enumerate(arrivals):
            for one, (modified, time) in enumerate(files):
                folder.put(f"file-{number}-{one}", modified, time)
            query.look()
            query.take(processed)
            query.log()
            assert len(query.state.late) <= WINDOW
            too_many = too_many or len(query.state.late) == WINDOW
            if restarted and not too_many:
                query.start()
        query.take_all()
    assert all(count == 1 for count in query.read.values())
    assert set(folder()) <= set(query.read)
    assert not said


@given(
    st.integers(0, 60),
    st.lists(st.integers(0, 70), max_size=6),
    st.sets(st.integers(0, 59)),
    st.integers(0, 60),
)
def test_late_files_that_no_look_found_are_read_or_reported(
    at_first: int, late: list[int], removed: set[int], processed: int
) -> None:
    """Files that were added below the cut while no query ran are read, or a warning or an error tells of them. Files
    were removed at the same time.
    """
    folder = FolderModel()
    for number in range(at_first):
        folder.put(f"first-{number}", number)
    query = FolderQuery(folder, window=WINDOW)
    query.take(processed)
    query.log()
    for number in removed:
        folder.files.pop(f"first-{number}", None)
    for number, modified in enumerate(late):
        folder.put(f"late-{number}", modified)
    with warnings() as said:
        try:
            query.start()
            query.take_all()
        except DataLossError:
            return
    assert all(count == 1 for count in query.read.values())
    assert set(folder()) <= set(query.read) or said


def many(count: int) -> FolderModel:
    folder = FolderModel()
    for number in range(count):
        folder.put(f"file-{number:04}", number)
    return folder


@pytest.mark.parametrize("late", [1, 2])
def test_few_late_files_are_found_among_many_files(late: int) -> None:
    """The digest of a bucket tells which file is new if no other file of the bucket changed."""
    folder = many(500)
    query = FolderQuery(folder, window=WINDOW)
    query.take_all()
    for number in range(late):
        folder.put(f"late-{number}", 100)
    query.start()
    assert sorted(file.path for file in query.take(10)) == [f"late-{n}" for n in range(late)]


@pytest.mark.parametrize("new", [0, 20])
def test_files_without_a_mark_that_were_away_at_a_restart(new: int) -> None:
    """The files of a mounted folder can be away at a restart. New files come meanwhile, and another restart follows."""
    folder = many(500)
    query = FolderQuery(folder, window=WINDOW)
    query.take_all()
    for path in sorted(folder.files)[:400:2]:
        folder.take_away(path)
    query.start()
    for number in range(new):
        folder.put(f"new-{number}", 10_000 + number)
    query.take_all()
    for path in list(folder.away):
        folder.bring_back(path)
    query.take_all()
    query.start()
    query.take_all()
    assert len(query.read) == 500 + new
    assert set(query.read.values()) == {1}


def test_files_that_may_be_those_that_were_away(caplog: pytest.LogCaptureFixture) -> None:
    """Some files came back and look like new ones: they are read, with a warning."""
    folder = many(500)
    query = FolderQuery(folder, window=WINDOW)
    query.take_all()
    for path in sorted(folder.files)[:400:2]:
        folder.take_away(path)
    query.start()
    folder.bring_back(min(folder.away))
    query.take_all()
    assert "may be some of these: they are read, perhaps a second time" in caplog.text


def test_more_late_files_than_can_be_found_fail_the_query() -> None:
    folder = many(500)
    query = FolderQuery(folder, window=WINDOW)
    query.take_all()
    for number in range(3):
        folder.put(f"late-{number}", 100)
    with pytest.raises(DataLossError, match=r"some were added while no query ran.*failOnDataLoss"):
        query.start()


def test_more_late_files_than_can_be_found_are_warned_of_if_the_option_allows_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = many(500)
    query = FolderQuery(folder, window=WINDOW, fail_on_data_loss=False)
    query.take_all()
    for number in range(3):
        folder.put(f"late-{number}", 100)
    query.start()
    assert query.take(10) == []
    assert "some were added while no query ran" in caplog.text


def test_files_that_are_cleaned_up_while_no_query_runs_are_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Retention removes the oldest files while no query runs. The digest proves most of them removed; at most
    one warning is logged.
    """
    folder = many(500)
    query = FolderQuery(folder, window=WINDOW)
    query.take_all()
    for number in range(245):
        folder.remove(f"file-{number:04}")
    query.start()
    assert query.take(10) == []
    assert caplog.text.count("have disappeared since the last run") <= 1


@pytest.mark.parametrize("policy", ModifiedFiles)
def test_modified_files_are_treated_as_the_option_says(
    policy: ModifiedFiles, caplog: pytest.LogCaptureFixture
) -> None:
    folder = FolderModel()
    folder.put("a", 1)
    query = FolderQuery(folder, window=WINDOW, modified=policy)
    query.take_all()
    folder.put("a", 2, size=5)
    if policy is ModifiedFiles.FAIL:
        with pytest.raises(DataLossError, match=r"File a was read and has changed.*files\.modified"):
            query.look()
        return
    query.look()
    query.log()
    query.start()
    assert [file.path for file in query.take(5)] == (["a"] if policy is ModifiedFiles.READ else [])
    assert ("File a was read and has changed" in caplog.text) == (policy is ModifiedFiles.IGNORE)


def test_a_change_while_no_query_runs_is_seen_among_the_newest() -> None:
    folder = FolderModel()
    folder.put("a", 1)
    query = FolderQuery(folder, window=WINDOW, modified=ModifiedFiles.FAIL)
    query.take_all()
    folder.put("a", 2)
    with pytest.raises(DataLossError, match="File a was read and has changed"):
        query.start()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_folder_that_is_empty_for_a_while_is_not_read_again(restarted: bool) -> None:
    """A folder that is empty for a while, such as a disk that is not mounted, is not read again."""
    folder = many(30)
    query = FolderQuery(folder, window=WINDOW)
    query.take_all()
    there, folder.files = folder.files, {}
    query.start() if restarted else query.look()
    assert query.take(5) == []
    query.log()
    folder.files = there
    folder.put("new", 100)
    query.take_all()
    assert set(query.read.values()) == {1}
    assert len(query.read) == 31


def test_the_state_is_bounded_however_many_files_come() -> None:
    folder, query = FolderModel(), None
    largest = 0
    for hour in range(60):
        for number in range(20):
            folder.put(f"{hour}-{number}", hour * 100 + number)
        query = query or FolderQuery(folder, window=WINDOW)
        query.take_all()
        largest = max(largest, len(query.state.recent))
        assert bounded(query.state)
    assert query is not None
    assert len(query.read) == 1200
    assert largest >= WINDOW // 2


def test_files_that_wait_long_keep_the_cut_below_them() -> None:
    """Unprocessed files have the modification times of processed files. A restart tells them apart by event time."""
    folder = FolderModel()
    for number in range(4):
        folder.put(f"goes-{number}", 0, time=1)
    query = FolderQuery(folder, window=WINDOW, order=BY_TIME)
    query.take(4)
    for number in range(4):
        folder.put(f"waits-{number}", 0, time=1000)
    for number in range(10):
        folder.put(f"new-{number}", 1 + number, time=2)
        query.look()
        query.take(1)
        query.log()
    query.start()
    query.take_all()
    assert set(query.read) == set(folder())
    assert set(query.read.values()) == {1}


def test_a_look_without_new_files_leaves_the_state_equal() -> None:
    """I8: a look that finds no new file leaves the state equal, because an offset that changes is a micro-batch."""
    folder = many(30)
    query = FolderQuery(folder, window=WINDOW)
    query.take_all()
    folder.remove("file-0003")
    query.look()
    assert query.files.snapshot() == query.state


def test_files_stay_processed_when_the_order_changes_within_a_generation() -> None:
    """Files stay processed when alignment is switched on between restarts, and off again."""
    folder = FolderModel()
    for number in range(40):
        folder.put(f"file-{number:02}", number, time=1000 - number)
    query = FolderQuery(folder, window=WINDOW)
    assert [file.modified for file in query.take(5)] == [0, 1, 2, 3, 4]
    query.log()
    query.order = BY_TIME
    query.start()
    assert [file.modified for file in query.take(5)] == [39, 38, 37, 36, 35]
    query.log()
    query.order = None
    query.start()
    query.take_all()
    assert len(query.read) == 40
    assert set(query.read.values()) == {1}
