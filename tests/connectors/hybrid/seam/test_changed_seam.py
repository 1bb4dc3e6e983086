"""An exact seam that is changed while the history is read, or for which the history has no positions. No JVM."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from flip27_stream.connectors.hybrid import ExactSeam, HybridSource
from flip27_stream.errors import OptionError
from tests.connectors.hybrid.support.copied_logs import Copied, Topic, copies
from tests.connectors.hybrid.support.kit import HybridQuery
from tests.spark.support.sources.memory_source import MemoryWorld

SEAM = ExactSeam(split="{split}", position="offset")

Files = dict[str, list[Copied]]


def hybrid(files: Files, world: MemoryWorld, seam: ExactSeam | None = SEAM) -> Callable[[], HybridSource]:
    """Returns a function that makes a hybrid source of copied files and a topic."""
    return lambda: (
        HybridSource.builder(copies(files)).add_source(Topic(world, fingerprint="topic"), seam=seam).build()
    )


@pytest.mark.parametrize(
    "former",
    [ExactSeam(split="topic/{split}", position="offset"), ExactSeam("{split}", position="event_time")],
)
def test_an_exact_seam_that_is_changed_within_a_history_is_refused(former: ExactSeam) -> None:
    """The state has ids and positions that the former seam gave, and would get right ones for the rest of the history:
    at the switch some ids would be right, so that rows come twice, or positions would be too great.
    """
    files: Files = {"f": [("a", n, 100 + n) for n in range(3)], "g": [("b", n, 100 + n) for n in range(3)]}
    world = MemoryWorld({"a": [100, 101, 102, 103], "b": [100, 101, 102, 103]})
    query = HybridQuery(hybrid(files, world, former))
    query.step(1)
    query._source = hybrid(files, world)
    query.restart()
    query.step(1)  # Nothing of the former seam is in the state yet.
    assert "ends" not in query.offset["enumerator"][1] or not query.offset["enumerator"][1]["ends"]
    query.step(1)
    query._source = hybrid(files, world, former)
    query.restart()
    with pytest.raises(OptionError, match=r"begun with ExactSeam\(split='{split}', .* now has ExactSeam\("):
        query.step(1)
    query._source = hybrid(files, world)
    query.restart()
    query.run()
    assert len(query.rows) == 8


@pytest.mark.parametrize("again", [SEAM, ExactSeam("{split}", position="event_time")])
def test_an_exact_seam_that_was_left_out_for_a_while_is_refused(again: ExactSeam) -> None:
    """Meanwhile no task reports what it reads, so the checkpoint does not keep what the former seam needed: it would
    grow, and another seam would take the positions of the former one for its own.
    """
    files: Files = {"f": [("a", n, 100 + n) for n in range(6)]}
    world = MemoryWorld({"a": [100 + n for n in range(9)]})
    query = HybridQuery(hybrid(files, world))
    for _ in range(3):
        query.step(1)
    assert query.offset["enumerator"][1]["ends"] == {"a": 2}
    query._source = hybrid(files, world, None)
    query.restart()
    query.step(1)
    assert not {"ends", "seam", "tail"} & query.offset["enumerator"][1].keys()
    query._source = hybrid(files, world, again)
    query.restart()
    with pytest.raises(OptionError, match="begun without an exact seam to the next source, or went on"):
        query.step(1)
    query._source = hybrid(files, world, None)
    query.restart()
    query.run()
    assert len(query.rows) == 6 + 9, "the next source begins where it says itself"


def test_a_checkpoint_of_version_2_does_not_say_which_seam_it_was_begun_with() -> None:
    files: Files = {"f": [("a", n, 100 + n) for n in range(4)]}
    query = HybridQuery(hybrid(files, MemoryWorld({"a": [100 + n for n in range(6)]})))
    query.step(1)
    query.step(1)
    _, state = query.offset["enumerator"]
    query.offset = {**query.offset, "enumerator": [2, {k: v for k, v in state.items() if k != "seam"}]}
    query.restart()
    query.run(1)
    assert len(query.rows) == 6
    assert "seam" in query.offsets[2]["enumerator"][1]


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_source_without_positions_before_a_seam_is_warned_of(
    is_empty: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The next source then begins where it says itself, at its first record here, so that all rows come twice."""
    first = copies({"f": [("a", n, 100 + n) for n in range(2)]})

    def without(records: pa.RecordBatch) -> pa.RecordBatch:
        return records.set_column(2, "offset", pa.nulls(len(records), pa.int64()))

    def source() -> HybridSource:
        builder = HybridSource.builder(first, converter=None if is_empty else without)
        if is_empty:
            builder.add_source(copies({}), seam=SEAM)
        return builder.add_source(
            Topic(MemoryWorld({"a": [100, 101]}), fingerprint="topic"), seam=SEAM
        ).build()

    query = HybridQuery(source)
    query.run()
    assert len(query.rows) == 4
    number = 1 if is_empty else 0
    assert f"No row of source {number} of the hybrid source (copies) has a position" in caplog.text
