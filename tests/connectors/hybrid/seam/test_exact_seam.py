"""An exact seam: each split of the next source begins at the position where its history ends. No JVM."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_stream.api import SourceReaderContext
from flip27_stream.api.planned_range import RangeKey
from flip27_stream.connectors.hybrid import ExactSeam, HybridSource, Overlap
from flip27_stream.connectors.hybrid.planning.enumerator_state import HybridEnumeratorStateSerializer
from flip27_stream.connectors.hybrid.seam import exact_seam as messages
from flip27_stream.errors import CorruptCheckpointError, OptionError
from tests.connectors.hybrid.support.copied_logs import Copied, CopyReader, CopySource, Topic, copies
from tests.connectors.hybrid.support.kit import SOME, HybridQuery
from tests.spark.support.sources.memory_source import MemoryReader, MemorySource, MemorySplit, MemoryWorld

SEAM = ExactSeam(split="{split}", position="offset")

Files = dict[str, list[Copied]]
Logs = dict[str, list[int | None]]


def hybrid(files: Files, world: MemoryWorld, seam: ExactSeam | None = SEAM) -> Callable[[], HybridSource]:
    """Makes a hybrid source of copied files and a topic. The topic is fixed and
    does not know where the history ends.
    """
    return lambda: (
        HybridSource.builder(copies(files)).add_source(Topic(world, fingerprint="topic"), seam=seam).build()
    )


def copied(logs: Logs, draw: random.Random, skew_ms: int = 0) -> Files:
    """Returns files with a prefix of each log but the last. Their event times are ``skew_ms`` ahead of the log's."""
    files: Files = {}
    for name in list(logs)[:-1]:
        for offset in range(draw.randrange(len(logs[name]) + 1)):
            time = logs[name][offset]
            assert time is not None
            files.setdefault(f"file {draw.randrange(6)}", []).append((name, offset, time + skew_ms))
    return files


def random_logs(draw: random.Random) -> Logs:
    return {name: [draw.randrange(1000, 2000) for _ in range(draw.randrange(1, 40))] for name in "abcd"}


def everything(logs: Logs) -> Counter[tuple[str, int | None]]:
    return Counter((name, time) for name, log in logs.items() for time in log)


def reread(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns a list that gets the splits that readers of this process are given from now on."""
    given: list[Any] = []
    add = MemoryReader.add_splits

    def note(self: MemoryReader, splits: Any) -> None:
        given.extend(splits)
        add(self, splits)

    monkeypatch.setattr(MemoryReader, "add_splits", note)
    return given


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("reports", [True, False])
@pytest.mark.parametrize("aligned", [False, True])
def test_any_prefix_of_any_log_and_the_rest_of_it_is_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: bool, reports: bool, aligned: bool
) -> None:
    """A copied prefix of each log and the rest of the log give each row once: in any order of event times, over
    restarts, and where no report of a task comes.
    """
    if not reports:
        monkeypatch.setattr(messages.SourceRangesRead, "event", lambda _: None)
    for seed in range(3):
        draw = random.Random(seed)
        logs = random_logs(draw)
        table = tmp_path / str(seed) if aligned else None
        query = HybridQuery(hybrid(copied(logs, draw), MemoryWorld(logs)), table, drift_ms=5000)
        while query.step(draw.choice([SOME, 7, 1])) is not None:
            if restarts and draw.random() < 0.3:
                query.restart()
        assert Counter(query.rows) == everything(logs), seed


def test_an_exact_seam_does_not_depend_on_event_times() -> None:
    """The history's event times are ahead of the records' times. A source that begins by time would skip records."""
    draw = random.Random(7)
    logs: Logs = {name: [1000 + n for n in range(40)] for name in "abc"}
    files = copied(logs, draw, skew_ms=3_600_000)
    query = HybridQuery(hybrid(files, MemoryWorld(logs)))
    query.run(9)
    read = Counter((name, time % 3_600_000) for name, time in query.rows if time is not None)
    assert read == everything(logs)


def test_batches_with_reports_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    files: Files = {f"f{n}": [("a", n, 1000 + n)] for n in range(50)}
    query = HybridQuery(hybrid(files, MemoryWorld({"a": [1000 + n for n in range(60)]})))
    query.step()
    given = reread(monkeypatch)
    end = query.plan()
    assert end is not None
    assert end["enumerator"][1]["index"] == 1
    assert given == []
    assert end["splits"]["1:a"][3] == 50, "begins behind the last row that was copied"


def test_batches_without_reports_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends before it hears the reports of its second batch, so the next process reads again the rows from
    that batch on. Each of the three batches has one row of each file.
    """
    files: Files = {f"f{n}": [("a", n * 3 + m, 1000 + n) for m in range(3)] for n in range(4)}
    query = HybridQuery(hybrid(files, MemoryWorld({"a": [1000 + n for n in range(20)]})))
    query.step(4)
    query.step(4)
    query.restart()
    given = reread(monkeypatch)
    query.run(4)
    assert Counter(time for _, time in query.rows).total() == 20
    again = [split for split in given if split.name.startswith("f")]
    assert sum(split.end - split.start for split in again) == 4 + 8, (
        "the last batch, and from the second one on"
    )


def test_files_skipped_while_batches_are_read_again_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that is gone is skipped with ``ignoreMissingFiles``; its rows were read before, and may be read twice."""
    monkeypatch.setattr(messages.SourceRangesRead, "event", lambda _: None)
    create = CopySource.create_reader

    def skipping(self: CopySource, context: SourceReaderContext) -> CopyReader:
        context.metric_group().counter("missing_files").inc()
        return create(self, context)

    monkeypatch.setattr(CopySource, "create_reader", skipping)
    query = HybridQuery(hybrid({"f": [("a", 0, 1)]}, MemoryWorld({"a": [1, 2]})))
    query.run()
    assert "Source 0 of the hybrid source was read again" in caplog.text
    assert "Skipped parts: missing_files 1. Their rows" in caplog.text


@dataclass(frozen=True)
class ForReader(MemorySplit):
    """A split with the data that its source adds for readers."""

    def between(self, start: int, end: int) -> ForReader:
        return ForReader(self.name, start, end)


def test_splits_are_read_again_as_readers_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits that are read again go through ``splits_for_readers``, as splits of
    tasks do; Kafka adds the topic's id.
    """

    def added(_: MemorySource, splits: Sequence[MemorySplit], checkpoint: int) -> list[MemorySplit]:
        assert type(checkpoint) is int
        return [ForReader(split.name) for split in splits]

    monkeypatch.setattr(MemorySource, "splits_for_readers", added)
    files: Files = {f"f{n}": [("a", n, 1000 + n)] for n in range(4)}
    query = HybridQuery(hybrid(files, MemoryWorld({"a": [1000 + n for n in range(6)]})))
    query.step()
    query.restart()
    given = reread(monkeypatch)
    query.run(4)
    assert len([split for split in given if split.name.startswith("f")]) == 4
    assert all(isinstance(split, ForReader) for split in given)


def test_a_split_that_the_history_has_no_row_of_begins_where_its_source_says() -> None:
    logs: Logs = {"a": [1, 2, 3], "b": [4, 5]}
    query = HybridQuery(hybrid({"f": [("a", 0, 1), ("a", 1, 2)]}, MemoryWorld(logs)))
    query.run()
    assert Counter(query.rows) == everything(logs)
    assert {name: split[3] for name, split in query.offsets[-1]["splits"].items()} == {"1:a": 2, "1:b": 0}


def test_rows_without_a_position_do_not_move_the_seam() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"split": ["a", "a", "b"], "offset": pa.array([3, None, None], pa.int64())}
    )
    assert SEAM.ends(rows) == {"a": 4}


def test_a_leader_that_is_silent_at_the_switch() -> None:
    """While a split is not in the offset, the enumerator's state has its positions
    in the history. A restart finds them there.
    """
    logs: Logs = {"a": [1, 2, 3], "b": [4, 5, 6]}
    world = MemoryWorld(logs)
    query = HybridQuery(hybrid({"f": [("a", 0, 1), ("b", 0, 4), ("b", 1, 5)]}, world))
    query.step()
    world.silent.add("b")
    query.step()
    assert query.index == 1
    assert "1:b" not in query.offset["splits"]
    assert query.offset["enumerator"][1]["known"] == {"b": [[0, 2]]}
    world.silent.clear()
    query.run()
    assert Counter(query.rows) == everything(logs)
    assert "known" not in query.offset["enumerator"][1]


def test_a_leader_that_falls_silent_between_two_questions() -> None:
    """The source is asked where its splits end, and again from where they begin.
    Its leader falls silent in between.
    """
    logs: Logs = {"a": [1, 2, 3]}
    world = MemoryWorld(logs)

    query = HybridQuery(hybrid({"f": [("a", 0, 1), ("a", 1, 2)]}, world))
    query.step()
    asked = world.calls

    class Silencing(list):  # type: ignore[type-arg]
        def append(self, call: object) -> None:
            super().append(call)
            if self.count("split_ranges") == 2:
                world.silent.add("a")

    world.calls = Silencing(asked)
    query.step()
    assert world.silent == {"a"}, "the plan of the switch asked twice"
    assert query.index == 1
    world.silent.clear()
    query.run()
    assert Counter(query.rows) == everything(logs)


def test_the_seam_survives_in_the_state() -> None:
    files: Files = {"f": [("a", n, n) for n in range(9)]}
    query = HybridQuery(hybrid(files, MemoryWorld({"a": list(range(20))})))
    query.step(1)
    query.step(1)
    state = query.offset["enumerator"]
    serializer = HybridEnumeratorStateSerializer()
    read = serializer.deserialize(*state)
    assert read.source_end.ends == {"a": 1}
    assert [state[0], serializer.serialize(read)] == state
    with pytest.raises(CorruptCheckpointError, match="ends"):
        serializer.deserialize(1, {**state[1], "ends": {"a": "1"}})


def test_an_exact_seam_added_to_a_running_history_fails() -> None:
    """An exact seam cannot be set after the first batch: the positions of the rows that were read are not known."""
    files: Files = {"f": [("a", 0, 1)], "g": [("a", 1, 2)]}
    query = HybridQuery(hybrid(files, MemoryWorld({"a": [1, 2, 3]}), seam=None))
    query.step(1)
    query._source = hybrid(files, MemoryWorld({"a": [1, 2, 3]}))
    query.restart()
    with pytest.raises(OptionError, match="begun without an exact seam"):
        query.step(1)


SEAMS: list[dict[str, Any]] = [
    {"seam": ExactSeam(split="topic/{split}", position="offset")},
    {"overlap": Overlap(ms=10, split="topic/{split}", position="offset")},
]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("seam", SEAMS)
def test_a_template_that_gives_no_id_of_the_next_source_fails_at_the_switch(
    seam: dict[str, Any], late: bool
) -> None:
    """Every row that both sources have would come twice. The next source may also find its first split after the
    switch, in another process.
    """
    files: Files = {"f": [("a", n, 100 + n) for n in range(5)]}
    logs: Logs = {} if late else {"a": [100 + n for n in range(9)]}

    def source(seam: dict[str, Any]) -> HybridSource:
        topic = Topic(MemoryWorld(logs), fingerprint="topic")
        return HybridSource.builder(copies(files), event_time="event_time").add_source(topic, **seam).build()

    query = HybridQuery(lambda: source(seam))
    query.step()
    if late:
        query.step()
        assert query.index == 1
        logs["a"] = [100 + n for n in range(9)]
        query.restart()
    with pytest.raises(
        OptionError, match=r"split 'topic/{split}' gives .*: 'topic/a', .* source has 'a'"
    ) as failed:
        query.step()
    assert len(query.rows) == 5
    kept = "seam" in seam
    assert ("start with another checkpointLocation" in str(failed.value)) == kept
    if not kept and not late:
        query._source = lambda: source({"overlap": Overlap(ms=10, split="{split}", position="offset")})
        query.restart()
        query.run()
        assert Counter(query.rows) == everything(logs)


@pytest.mark.parametrize("known", [1, 20])
def test_ids_that_are_in_no_split_of_the_next_source_are_warned_of_once(
    known: int, caplog: pytest.LogCaptureFixture
) -> None:
    files: Files = {"f": [("a", 0, 1), *((f"gone{n:02}", 0, 2) for n in range(known))]}
    query = HybridQuery(hybrid(files, MemoryWorld({"a": [1, 2, 3]})))
    while query.step(1) is not None:
        query.restart()
    assert [time for name, time in sorted(query.rows) if name == "a"] == [1, 2, 3]
    warned = [
        record.message
        for record in caplog.records
        if "that no split of the next source has" in record.message
    ]
    assert len(warned) == 1
    names = "gone00. If" if known == 1 else "gone00, gone01, gone02, gone03, gone04 and 15 more. If"
    assert f"gives {known} ids that no split of the next source has: {names}" in warned[0]


def test_a_seam_needs_its_columns_and_no_overlap() -> None:
    with pytest.raises(OptionError, match=r"An exact seam needs columns .* does not have: partition, topic"):
        hybrid({}, MemoryWorld({}), ExactSeam())()
    builder = HybridSource.builder(copies({}))
    with pytest.raises(OptionError, match="an overlap and an exact seam"):
        builder.add_source(Topic(MemoryWorld({})), overlap=Overlap(5, "{split}"), seam=SEAM)


@pytest.mark.parametrize("kind", ["string", "binary", "double", "timestamp[us]", "decimal128(38, 0)"])
@pytest.mark.parametrize("rule", [SEAM, Overlap(5, "{split}")])
def test_a_seam_needs_positions_that_are_integers(rule: ExactSeam | Overlap, kind: str) -> None:
    """The query would otherwise fail after the whole history, or compare numbers that are no positions."""
    types = {"timestamp[us]": pa.timestamp("us"), "decimal128(38, 0)": pa.decimal128(38)}
    schema = pa.schema({"split": pa.string(), "offset": types.get(kind) or kind})
    with pytest.raises(
        OptionError, match=rf"needs .* integers, and column 'offset' has type {re.escape(kind)}"
    ):
        rule.check(schema)
    rule.check(pa.schema({"split": pa.string(), "offset": pa.int32()}))


def test_a_message_that_would_be_too_long_is_not_sent() -> None:
    many = {f"topic-{n}": n for n in range(60_000)}
    assert messages.SourceRangesRead(0, [RangeKey("f", 0, 1)], many).event() is None
    sent = [RangeKey("f", 0, 1)]
    event = messages.SourceRangesRead(0, sent, {"a": 1}).event()
    assert event is not None
    assert messages.SourceRangesRead.of(event) == messages.SourceRangesRead(0, sent, {"a": 1})
