"""An overlap at the seam: rows that both sources have are read once, whatever their order. No JVM."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_stream.api import Source
from flip27_stream.connectors.hybrid import ExactSeam, HybridSource, Overlap, SourceSwitchContext
from flip27_stream.connectors.hybrid.planning.source_end import SourceEnd
from flip27_stream.connectors.hybrid.seam.overlap import not_among
from flip27_stream.errors import ConnectorError, DataLossError, OptionError
from tests.connectors.hybrid.support.copied_logs import Copied, Topic, copies
from tests.connectors.hybrid.support.kit import SOME, HybridQuery
from tests.spark.support.sources.memory_source import MemoryReader, MemoryWorld

OVERLAP = Overlap(ms=50, split="{split}", position="offset")


EXACT = ExactSeam(split="{split}", position="offset")


def hybrid(
    files: dict[str, list[Copied]],
    logs: dict[str, list[int | None]],
    overlap: Overlap | None = OVERLAP,
    seam: ExactSeam | None = None,
) -> Callable[[], HybridSource]:
    world = MemoryWorld(logs)

    def topic(switch: SourceSwitchContext) -> Source[Any, Any]:
        return Topic(world, fingerprint="topic", start_ms=switch.start_time_ms)

    return lambda: (
        HybridSource.builder(copies(files), event_time="event_time")
        .add_source(topic, overlap=overlap, seam=seam)
        .build()
    )


LOGS: dict[str, list[int | None]] = {"a": [100, 140, 120, 150, 130, 160, 155, 170], "b": [90, 152, 151, 180]}
"""Event times are out of order by up to 30 ms."""

FILES: dict[str, list[Copied]] = {
    "f": [("a", 0, 100), ("b", 0, 90), ("a", 1, 140)],
    "g": [("a", 2, 120), ("a", 3, 150), ("b", 1, 152)],
    "h": [("a", 4, 130)],
}
"""The copy ends in the middle of the disorder: 151 and 155 of the topic are missing, though 152 and 160 come after."""


@pytest.mark.parametrize("limit", [SOME, 1])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_rows_out_of_order_at_the_seam_are_read_once(
    tmp_path: Path, aligned: bool, limit: int, restarts: bool
) -> None:
    """Every row is read once. A source that began after the greatest event time of the history would lose row 151."""
    query = HybridQuery(hybrid(FILES, LOGS), tmp_path / "table" if aligned else None, drift_ms=1000)
    while query.step(limit) is not None:
        if restarts:
            query.restart()
    assert sorted(query.rows, key=str) == sorted(
        ((name, t) for name, log in LOGS.items() for t in log), key=str
    )
    replayed = query.read(query.start, query.offset)
    assert set(replayed) <= set(query.rows)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_gap_behind_the_end_of_the_history_is_read(
    restarts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The history's event times are ahead of the records' times, so by time the next source would
    begin behind the end of the history, and 440 records would be in neither. The offsets in the
    history show the gap, and these records are read.
    """
    log: list[int | None] = list(range(1000, 2000))
    files = {f"f{n}": [("a", i, 1000 + i + 490) for i in range(n, n + 50)] for n in range(0, 500, 50)}
    query = HybridQuery(hybrid(files, {"a": log}))
    while query.step(100) is not None:
        if restarts:
            query.restart()
    seen = Counter(t if i >= 500 else t - 490 for i, (_, t) in enumerate(query.rows) if t is not None)
    assert seen == Counter(log)
    assert (
        "only up to 499. It begins directly after these rows, so that the 440 positions between are read"
        in caplog.text
    )


def test_a_topic_that_was_made_anew_since_it_was_copied_is_refused() -> None:
    """A topic that was made anew has the offsets of rows in the history. Its records would all
    be left out silently.
    """
    files = {"f": [("a", n, 100 + n) for n in range(50)]}
    query = HybridQuery(hybrid(files, {"a": [1000 + n for n in range(30)]}))
    with pytest.raises(DataLossError, match=r"Split 1:a ends at position 30, .* rows of it up to 49"):
        query.run()


def test_without_an_overlap_the_seam_is_at_the_greatest_event_time() -> None:
    """Without an overlap the topic begins after the greatest event time of the history. Its late row 151 is lost."""
    query = HybridQuery(hybrid(FILES, LOGS, overlap=None))
    assert sorted(t for _, t in query.run() if t is not None) == [
        90,
        100,
        120,
        130,
        140,
        150,
        152,
        155,
        160,
        170,
        180,
    ]


def test_a_random_copy_and_the_rest_of_its_log_have_each_record_once() -> None:
    """The history has any prefix of each log, scattered over files. Event times
    are in disorder within the overlap.
    """
    for seed in range(10):
        draw = random.Random(seed)
        logs: dict[str, list[int | None]] = {
            name: [1000 + 5 * i + draw.randrange(25) for i in range(draw.randrange(1, 40))] for name in "abc"
        }
        upto = draw.randrange(1000, 1200)
        files: dict[str, list[Copied]] = {}
        for name, log in logs.items():
            # The copying job stops at one time: it copies each log up to the first record after that time.
            cut = next((i for i, _ in enumerate(log) if 1000 + 5 * i > upto), len(log))
            for i in range(cut):
                time = log[i]
                assert time is not None
                files.setdefault(f"file-{i // draw.randrange(3, 9)}-{name}", []).append((name, i, time))
        query = HybridQuery(hybrid(files, logs))
        query.run(draw.choice([SOME, 30]))
        assert Counter(query.rows) == Counter((n, t) for n, log in logs.items() for t in log), seed


def test_only_the_end_of_the_first_source_is_remembered_and_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files that end before the overlap are neither in the offset nor read twice."""
    files = {f"f{i:03}": [("a", i, 1000 + i)] for i in range(300)}
    logs: dict[str, list[int | None]] = {"a": [1000 + i for i in range(320)]}
    read: list[Sequence[str]] = []
    add = MemoryReader.add_splits

    def note(self: MemoryReader, splits: Any) -> None:
        read.append([s.name for s in splits])
        add(self, splits)

    query = HybridQuery(hybrid(files, logs), available_now=False)
    query.step()
    tail = query.offset["enumerator"][1]["tail"]
    assert set(tail) == {f"f{i:03}" for i in range(199, 300)}
    monkeypatch.setattr(MemoryReader, "add_splits", note)
    query.step()
    assert sorted(read[0]) == sorted(tail)
    query.run()
    assert len(query.rows) == 320


def test_positions_are_kept_as_intervals() -> None:
    batch = pa.RecordBatch.from_pydict({"split": ["a", "b", "a", "a", "a"], "offset": [3, 7, 1, 2, 9]})
    known = OVERLAP.positions([batch])
    assert known == {"a": ((1, 4), (9, 10)), "b": ((7, 8),)}
    mask = not_among(pa.array([0, 1, 3, 4, 8, 9, 10]), known["a"])
    assert mask is not None
    assert mask.to_pylist() == [True, False, False, True, True, False, True]
    assert not_among(pa.array([10, 11]), known["a"]) is None


def test_positions_scattered_too_much_are_an_error() -> None:
    batch = pa.RecordBatch.from_pydict({"split": ["a"] * 1001, "offset": list(range(0, 2002, 2))})
    with pytest.raises(ConnectorError, match="1001 gaps"):
        OVERLAP.positions([batch])


@pytest.mark.parametrize("limit", [SOME, 3])
@pytest.mark.parametrize(
    ("overlap", "seam", "words"),
    [
        (None, None, "begun with no overlap .* an overlap of 50 ms now.* Leave the overlap out, or"),
        (
            Overlap(1, "{split}"),
            None,
            "begun with an overlap of 1 ms .* 50 ms now.* Give that overlap again, or",
        ),
        (None, EXACT, "begun with an exact seam .* 50 ms now.* Give the exact seam again, or"),
    ],
)
def test_an_overlap_that_is_added_or_enlarged_after_rows_were_read_is_refused(
    overlap: Overlap | None, seam: ExactSeam | None, words: str, limit: int
) -> None:
    """The splits that reach into it are not in the state, so their rows would come twice. The former seam goes on."""
    query = HybridQuery(hybrid(FILES, LOGS, overlap, seam))
    query.step(limit)
    before, query._source = query._source, hybrid(FILES, LOGS)
    query.restart()
    with pytest.raises(OptionError, match=f"Source 0 of the hybrid source was {words} start with another"):
        query.step()
    query._source = before
    query.restart()
    query.step()


def test_an_overlap_that_was_left_out_for_a_while_is_not_taken_again() -> None:
    query = HybridQuery(hybrid(FILES, LOGS))
    query.step(3)
    query._source = hybrid(FILES, LOGS, overlap=None)
    query.restart()
    query.step(1)
    assert "tail" not in query.offset["enumerator"][1]
    query._source = hybrid(FILES, LOGS)
    query.restart()
    with pytest.raises(OptionError, match="begun with no overlap"):
        query.step()


@pytest.mark.parametrize("limit", [SOME, 3])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("ms", [50, 35])
def test_the_same_overlap_or_a_shorter_one_goes_on(ms: int, version: int, limit: int) -> None:
    """Version 1 of the state does not have the overlap, but has the splits that reach into it."""
    query = HybridQuery(hybrid(FILES, LOGS))
    query.step(limit)
    state = query.offset["enumerator"][1]
    if version == 1:
        del state["overlap"]
        query.offset["enumerator"] = [1, state]
    query._source = hybrid(FILES, LOGS, Overlap(ms, "{split}"))
    query.restart()
    query.step(1)
    assert query.index == 1 or query.offset["enumerator"][1]["overlap"] == ms
    query.run()
    assert Counter(query.rows) == Counter((name, t) for name, log in LOGS.items() for t in log)


def test_an_overlap_can_be_added_before_a_row_was_read() -> None:
    goes_on = SourceEnd().continued("Source 0", 50, None, has_splits=False)
    assert goes_on == SourceEnd(overlap_ms=50)
    for begun in (SourceEnd(greatest=1), SourceEnd(blind=True)):
        with pytest.raises(OptionError, match="no overlap"):
            begun.continued("Source 0", 50, None, has_splits=False)


def test_an_overlap_needs_its_columns() -> None:
    with pytest.raises(OptionError, match="columns that the hybrid source does not have: partition, topic"):
        hybrid(FILES, LOGS, Overlap(ms=5))()
    with pytest.raises(OptionError, match="names no column"):
        hybrid(FILES, LOGS, Overlap(ms=5, split="x"))()
    with pytest.raises(ValueError, match="longer than 0 ms"):
        Overlap(ms=0)
