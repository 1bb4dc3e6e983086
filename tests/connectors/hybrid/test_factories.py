"""Factories of the next source: where it begins, and what they get after a restart. No JVM."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.api import Boundedness, JsonValue, Source, SplitEnumerator
from flip27_stream.connectors.hybrid import HybridSource, SourceSwitchContext
from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.errors import ForeignCheckpointError, OptionError
from tests.connectors.hybrid.support.kit import (
    NEW,
    OLD,
    SEAM,
    HybridQuery,
    NotingFactory,
    history,
    live,
    table,
    two,
)
from tests.spark.support.sources.memory_source import MemoryEnumerator, MemorySource, MemoryWorld


@pytest.mark.parametrize("aligned", [False, True])
def test_hy_02_a_factory_gets_the_enumerator_before_and_where_it_ends(tmp_path: Path, aligned: bool) -> None:
    """HY-02: the end position is the greatest event time read; the next source goes on after it."""
    made = NotingFactory(NEW)
    query = HybridQuery(two(made), table(tmp_path, aligned))
    assert query.run() == SEAM
    trial, call = made.calls
    assert (trial.previous_enumerator, trial.end_position) == (None, 0)
    assert isinstance(call.previous_enumerator, MemoryEnumerator)
    assert (call.end_position, call.start_time_ms) == (120, 121)


def test_hy_18_a_restart_after_the_switch_does_not_need_the_first_source() -> None:
    """HY-18: the end position is in the offset, so the first source may be gone after the switch."""
    made = NotingFactory(NEW)
    query = HybridQuery(two(made))
    query.run()
    gone = HybridSource.builder(history("old", {}), event_time="event_time").add_source(made)
    query._source = gone.build
    made.world.logs["a"] = [*NEW["a"], 140]
    made.calls.clear()
    query.restart()
    assert query.run() == [("a", 140)]
    (call,) = made.calls
    assert (call.previous_enumerator, call.end_position) == (None, 120)


def test_hy_18_a_factory_that_needs_the_enumerator_fails_by_name_after_a_restart() -> None:
    def needs(switch: SourceSwitchContext) -> Any:
        assert isinstance(switch.previous_enumerator, SplitEnumerator), "no enumerator"
        return live("new", NEW)

    query = HybridQuery(lambda: HybridSource.builder(history("old", OLD)).add_source(needs).build())
    query.run()
    query.restart()
    with pytest.raises(OptionError, match=r"(?s)factory of source 1 .*no enumerator.*this is a restart"):
        query.step()


def test_a_factory_that_makes_another_source_after_a_restart_is_refused() -> None:
    names = iter(["trial", "new", "another trial", "another"])
    query = HybridQuery(
        lambda: HybridSource.builder(history("old", OLD)).add_source(lambda s: live(next(names), NEW)).build()
    )
    query.run()
    query.restart()
    with pytest.raises(ForeignCheckpointError, match=r"'new'.*now makes 'another'"):
        query.step()


class Endless(MemorySource):
    """A bounded source whose ranges have no final ends outside of a batch read."""

    ends_in_streams = False


def test_a_source_that_ends_only_in_batch_reads_is_refused_in_the_middle() -> None:
    """The switch after it would never come, and the query would wait for ever. It may be the last source."""
    endless = Endless(MemoryWorld(dict(OLD)), Boundedness.BOUNDED, "kept")
    refused = r"\(kept\) ends only in a batch"
    chain = HybridSource.builder(history("old", OLD)).add_source(endless).build()
    assert (chain.boundedness, chain.ends_in_streams) == (Boundedness.BOUNDED, False)
    for first in (endless, chain):
        with pytest.raises(OptionError, match="ends only in a batch read"):
            HybridSource.builder(first).add_source(live("new", NEW))
    middle = HybridSource.builder(history("old", OLD)).add_source(lambda switch: endless)
    with pytest.raises(OptionError, match=f"Source 1 of the hybrid source {refused}"):
        middle.add_source(live("new", NEW))

    def late(switch: SourceSwitchContext) -> Any:
        assert switch.previous_enumerator is not None
        return endless

    middle = HybridSource.builder(history("old", OLD)).add_source(late, boundedness=Boundedness.BOUNDED)
    query = HybridQuery(middle.add_source(live("new", NEW)).build)
    with pytest.raises(OptionError, match=f"Source 1 of the hybrid source {refused}"):
        query.run()


@pytest.mark.parametrize(
    "make",
    [
        partial(KinesisSource, {"streamName": "clicks"}),
        partial(PulsarSource, {"service.url": "pulsar://localhost:6650", "topic": "clicks"}),
    ],
    ids=["kinesis", "pulsar"],
)
def test_no_source_can_be_read_after_kinesis_or_pulsar(make: Callable[..., Source[Any, Any]]) -> None:
    builder = HybridSource.builder(make(bounded=True))
    with pytest.raises(OptionError, match=r"Source 0 .* \(.*clicks\) ends only in a batch read"):
        builder.add_source(make())


class Taking(MemorySource):
    """A source that accepts the checkpoint of any source whose fingerprint has no dash."""

    def accepts_checkpoint_of(self, fingerprint: str) -> bool:
        return "-" not in fingerprint


def test_a_hybrid_source_accepts_a_checkpoint_if_each_of_its_sources_does() -> None:
    """A hybrid source accepts the checkpoint of another one if each of its sources accepts that of the source at its
    place, whether these are fixed or made by factories.
    """
    past = history("old", OLD)

    def chain(*more: Any) -> HybridSource:
        builder = HybridSource.builder(past)
        for one in more:
            builder = builder.add_source(one)
        return builder.build()

    now = Taking(MemoryWorld(dict(NEW)), fingerprint="now")
    assert chain(now).accepts_checkpoint_of(chain(live("then", NEW)).fingerprint)
    assert not chain(now).accepts_checkpoint_of(chain(live("the-n", NEW)).fingerprint)
    assert not chain(now).accepts_checkpoint_of(chain(past, live("then", NEW)).fingerprint)
    assert not chain(now).accepts_checkpoint_of("old, then then")
    made = iter([live("trial", NEW), live("new", NEW), live("trial", NEW), now])
    query = HybridQuery(lambda: chain(lambda switch: next(made)))
    rows = query.run()
    query.restart()
    assert query.step() in (None, [])
    assert len(rows) == sum(map(len, [*OLD.values(), *NEW.values()]))


def unchecked(make: Callable[[SourceSwitchContext], Any]) -> Callable[[], HybridSource]:
    """Returns a function that makes a hybrid source whose history has no column of event time."""
    return lambda: HybridSource.builder(history("old", OLD)).add_source(make).build()


def test_an_unknown_end_position_is_an_error_of_the_first_plan() -> None:
    """The query has neither alignment nor a column of event time, and the factory asks for the end of the history. No
    offset is logged, so the remedy works on the same checkpoint. A fixed source does not ask, and is read.
    """
    made = NotingFactory(NEW)
    query = HybridQuery(unchecked(made))
    with pytest.raises(OptionError, match="would be read without checking its event times") as failed:
        query.step()
    assert str(failed.value).endswith("or read with option scan.watermark.alignment.group.")
    query._source = two(made)
    query.restart()
    assert query.run() == SEAM
    fixed = HybridQuery(lambda: HybridSource.builder(history("old", OLD)).add_source(live("n", NEW)).build())
    assert len(fixed.run()) == 10


def test_an_unknown_end_position_of_a_source_in_the_middle_is_an_error_before_it_is_read() -> None:
    """The remedy works on the same checkpoint, as its last offset is in the source before."""
    made = NotingFactory({"a": [200]})

    def chain(event_time: str | None) -> HybridSource:
        builder = HybridSource.builder(history("old", OLD))
        return builder.add_source(history("mid", NEW), event_time=event_time).add_source(made).build()

    query = HybridQuery(lambda: chain(None))
    query.step()
    with pytest.raises(OptionError, match=r"Source 1 .* would be read without checking"):
        query.step()
    query._source = lambda: chain("event_time")
    query.restart()
    query.run()
    assert query.index == 2
    assert query.rows[-1] == ("a", 200)


@pytest.mark.parametrize("asks_early", [False, True])
def test_alignment_switched_on_half_way_leaves_the_end_unknown(tmp_path: Path, asks_early: bool) -> None:
    """The event times of rows that were read before alignment are unknown. A smaller greatest event
    time would double rows of the next source. The first factory does not ask for the end before the switch.
    """
    made = NotingFactory(NEW)
    query = HybridQuery(
        unchecked(lambda switch: live("made", NEW) if switch.known_end == 0 else made(switch))
    )
    query.step(3)
    query._table = tmp_path / "table"
    if asks_early:
        query._source = unchecked(made)
    query.restart()
    words = "was read without checking its event times.* and start with another checkpointLocation"
    with pytest.raises(OptionError, match=words):
        query.run()
    assert query.index == 0
    assert len(query.rows) == (2 if asks_early else 5)


def test_an_enumerator_can_say_where_its_source_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """FLIP-150: the end position may be any JSON value, and a restart finds it again."""
    from flip27_stream.connectors.hybrid.planning import enumerator

    monkeypatch.setattr(enumerator, "SupportsEndPosition", MemoryEnumerator)
    position: JsonValue = {"version": 7, "files": ["a", "b"]}
    monkeypatch.setattr(MemoryEnumerator, "end_position", lambda self: position, raising=False)
    seen = []

    def after(switch: SourceSwitchContext) -> Any:
        seen.append(switch.end_position)
        return live("new", NEW)

    query = HybridQuery(lambda: HybridSource.builder(history("old", OLD)).add_source(after).build())
    query.run()
    query.restart()
    query.step()
    assert seen == [0, position, 0, position]
    with pytest.raises(OptionError, match="not an event time in milliseconds"):
        SourceSwitchContext(known_end=position).start_time_ms  # noqa: B018
