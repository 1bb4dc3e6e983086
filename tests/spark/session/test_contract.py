"""Mistakes in an enumerator or a serializer raise errors that name them, and never get into an offset. No JVM."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import pytest

from flip27_stream.api import (
    SimpleVersionedSerializer,
    SourceEvent,
    SourceSplit,
    SplitEnumeratorContext,
    SplitRange,
    SplitsAssignment,
)
from flip27_stream.connectors.hybrid.child_context import ChildContext
from flip27_stream.errors import ContractError, CorruptCheckpointError
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.testing.source_query import SourceQuery
from tests.spark.support.driven_query import DrivenQuery, memory_query
from tests.spark.support.sources.memory_source import (
    CountSerializer,
    LogEnumerator,
    MemorySource,
    MemorySplit,
    MemoryWorld,
    NameSerializer,
)


class CarelessEnumerator(LogEnumerator):
    """An enumerator some of whose methods return wrong values."""

    def __init__(self, *restored: Any, answers: dict[str, object]) -> None:
        super().__init__(*restored)
        vars(self).update({name: lambda *_, answer=answer: answer for name, answer in answers.items()})


def enumerator(**answers: object) -> Callable[..., LogEnumerator]:
    return partial(CarelessEnumerator, answers=answers)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "returned None; it must return an object of Mapping"),
        ({"b": SplitRange(0, 1)}, "'b', which is not the id of an assigned split"),
        ({"a": (0, 1)}, r"\(0, 1\) for split 'a'"),
        ({"a": SplitRange(0, 1.0)}, "of type int"),  # type: ignore[arg-type]
        ({"a": SplitRange(np.int64(0), np.int64(1))}, "of type int"),
        ({"a": SplitRange(True, True)}, "of type int"),
        ({"a": SplitRange(-1, 1)}, "from position -1 up to 1"),
        ({"a": SplitRange(2, 1)}, "from position 2 up to 1.*DataLossError"),
        ({"a": SplitRange(0, 1, final=None)}, "drained, final and limited must be True or False"),  # type: ignore[arg-type]
    ],
)
def test_ranges_that_no_offset_can_hold_are_refused(answer: object, why: str) -> None:
    """Wrong ranges of ``split_ranges`` raise an error that names the mistake. An offset with such a range could never
    be read again.
    """
    with pytest.raises(ContractError, match=why):
        memory_query(enumerator(split_ranges=answer)).step()
    with (
        pytest.raises(ContractError, match=why),
        SourceQuery(memory_query(enumerator(split_ranges=answer)).source) as q,
    ):
        q.read_batch()


def test_an_end_before_the_read_position_is_refused() -> None:
    one = memory_query()
    one.step()
    one.world.logs["a"] = [1]
    with pytest.raises(ContractError, match="for split 'a' a range from position 3 up to 1"):
        one.step()


@pytest.mark.parametrize("pending", [None, "1", 1.5, -1])
def test_a_wrong_count_of_pending_splits_is_refused(pending: object) -> None:
    why = rf"CarelessEnumerator.pending\(\) returned {pending!r}; it must return an int, not negative"
    with pytest.raises(ContractError, match=why):
        memory_query(enumerator(pending=pending)).step()
    with (
        pytest.raises(ContractError, match=why),
        SourceQuery(memory_query(enumerator(pending=pending)).source) as q,
    ):
        q.read_batch()


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"log_ends": None}, r"log_ends\(\) returned None; it must return an object of Mapping"),
        (
            {"describe_positions": [1]},
            r"describe_positions\(\) returned \[1\]; it must return an object of Mapping",
        ),
        (
            {"describe_positions": {"a": {1, 2}}},
            r"describe_positions\(\) returned .*Spark can show JSON only",
        ),
    ],
)
def test_positions_that_spark_cannot_show_are_refused(answers: dict[str, object], why: str) -> None:
    one = memory_query(enumerator(**answers))
    one.step()
    with pytest.raises(ContractError, match=f"CarelessEnumerator.{why}"):
        one.coordinator.report_latest_offset()


class NoEnumerator(MemorySource):
    def create_enumerator(self, context: Any) -> Any:
        return None


def test_a_source_that_creates_no_enumerator_is_refused() -> None:
    with pytest.raises(ContractError, match=r"create_enumerator\(\).* returned None"):
        DrivenQuery(MemoryWorld({}), None, source=NoEnumerator(MemoryWorld({}))).step()


class Unreadable(NameSerializer):
    version = "1"  # type: ignore[assignment]


class Other(NameSerializer):
    def serialize(self, value: MemorySplit) -> Any:
        return "another"


class Bytes(NameSerializer):
    def serialize(self, value: MemorySplit) -> Any:
        return b"a"


@dataclass
class BadlyStored(MemorySource):
    serializer: Any = None

    @property
    def split_serializer(self) -> SimpleVersionedSerializer[Any]:
        return self.serializer  # type: ignore[no-any-return]


@pytest.mark.parametrize("serializer", [Unreadable(), Other()])
def test_a_serializer_that_does_not_read_its_own_form_is_refused(serializer: object) -> None:
    """A serializer that does not read what it writes is found before the first offset is stored, not at the first
    restart.
    """
    source = BadlyStored(MemoryWorld({"a": [1]}), enumerator=LogEnumerator, serializer=serializer)
    with pytest.raises(
        ContractError, match=r"BadlyStored (cannot read what they wrote|do not read a state as they wrote it)"
    ):
        DrivenQuery(source.world, None, source=source).step()


def test_a_serializer_that_yields_no_json_is_named() -> None:
    source = BadlyStored(MemoryWorld({"a": [1]}), enumerator=LogEnumerator, serializer=Bytes())
    with pytest.raises(ContractError, match=r"Bytes.serialize\(\) of 'state' of split 'a'.*not b'a'"):
        DrivenQuery(source.world, None, source=source).step()


class Tally(CountSerializer):
    def serialize(self, value: Any) -> Any:
        return len(value)

    def deserialize(self, version: int, data: Any) -> Any:
        return [None] * data


class Fails(NameSerializer):
    def serialize(self, value: MemorySplit) -> Any:
        return value.path  # type: ignore[attr-defined]


class ReadsNothing(NameSerializer):
    def deserialize(self, version: int, data: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("serializer", "why"),
    [
        (Fails(), r"Fails.serialize\(\) of 'state' of split 'a' failed on MemorySplit.*no attribute 'path'"),
        (ReadsNothing(), "BadlyStored cannot read what they wrote.*of split 'a'.*not of None"),
    ],
)
def test_serializers_of_splits_that_fail_are_named(serializer: object, why: str) -> None:
    source = BadlyStored(MemoryWorld({"a": [1]}), enumerator=LogEnumerator, serializer=serializer)
    with pytest.raises(ContractError, match=why):
        DrivenQuery(source.world, None, source=source).step()


def test_a_serializer_that_reads_nothing_any_more_is_named_at_the_restart() -> None:
    one = memory_query()
    one.step()
    one.source = BadlyStored(one.world, enumerator=LogEnumerator, serializer=ReadsNothing())
    one.restart()
    with pytest.raises(CorruptCheckpointError, match=r"'state' of split 'a'.*not of None"):
        one.step()


class Forgets(CountSerializer):
    def deserialize(self, version: int, data: Any) -> Any:
        return 0


@dataclass
class BadlyKept(MemorySource):
    enumerator_checkpoint_serializer: Any = None


@pytest.mark.parametrize(
    ("serializer", "answers", "why"),
    [
        (Forgets(), {}, r"'enumerator' was written as \[1, 1\], then read, and then written as \[1, 0\]"),
        (Tally(), {"snapshot_state": None}, r"Tally.serialize\(\) of 'enumerator' failed on None.*len"),
        (
            CountSerializer(),
            {"snapshot_state": 0.5},
            r"CountSerializer.serialize\(\) of 'enumerator'.*not 0.5",
        ),
    ],
    ids=["forgets", "none", "float"],
)
def test_states_that_do_not_come_back_equal_are_refused(
    serializer: object, answers: dict[str, object], why: str
) -> None:
    world = MemoryWorld({"a": [1]})
    source = BadlyKept(world, enumerator=enumerator(**answers), enumerator_checkpoint_serializer=serializer)
    with pytest.raises(ContractError, match=why):
        DrivenQuery(world, None, source=source).step()


class Tallying(LogEnumerator):
    """An enumerator whose state is a list that it changes in place."""

    def snapshot_state(self) -> Any:
        return self.world.calls


class TallyingSource(MemorySource):
    enumerator_checkpoint_serializer = Tally()


def test_a_state_that_is_changed_in_place_is_stored() -> None:
    """A state that the enumerator changes in place is stored again, although it is the same object as in the last
    offset. Its stored form is compared.
    """
    world = MemoryWorld({"a": [1]})
    source = TallyingSource(world, enumerator=Tallying)
    one = DrivenQuery(world, None, source=source)
    one.step()
    stored = one.offset["enumerator"]
    world.calls.append("something has changed")
    assert one.step() == []
    assert one.offset["enumerator"] > stored


@dataclass
class Unhashable(SourceSplit):
    name: str

    @property
    def split_id(self) -> str:
        return self.name

    def between(self, start: int, end: int) -> Unhashable:
        return self


@pytest.mark.parametrize(
    ("splits", "why"),
    [
        (["a"], "it is not a SourceSplit"),
        ([MemorySplit(1)], "whose id is 1: it must be text"),  # type: ignore[arg-type]
        ([MemorySplit("")], "whose id is ''"),
        ([MemorySplit("\udcff.log")], "UTF-8"),
        ([MemorySplit("<group>")], "whose id is '<group>': .*, and not <backlog> or <group>"),
        ([Unhashable("a")], "split 'a': unhashable.*frozen dataclass"),
        ([MemorySplit("a"), MemorySplit("a", 1)], r"2 splits: they have only 1 different ids: \['a'\]"),
    ],
)
def test_splits_that_no_offset_can_hold_are_refused(splits: list[Any], why: str) -> None:
    context = CoordinatorContext(2, "host")
    with pytest.raises(ValueError, match=why):
        context.assign_splits(SplitsAssignment({0: splits}))
    assert not context.splits


@pytest.mark.parametrize("name", ["a\nb", "a\0b", '"', "-", "é" * 300, "a b/%?", "\U0001f600"])
def test_any_other_text_is_a_split_id(name: str) -> None:
    world = MemoryWorld({name: [1]})
    one = DrivenQuery(world, None, source=MemorySource(world, enumerator=LogEnumerator))
    assert one.step() == [(name, 1)]
    one.offset = json.loads(json.dumps(one.offset))
    one.restart()
    world.logs[name].append(2)
    assert one.step() == [(name, 2)]


@pytest.mark.parametrize("slot", [2, -1, "0", None])
def test_assignments_to_unknown_readers_are_refused(slot: Any) -> None:
    context = CoordinatorContext(2, "host")
    with pytest.raises(ValueError, match=r"no more splits.*only readers 0 to 1 are registered"):
        context.signal_no_more_splits(slot)
    with pytest.raises(ValueError, match=r"event.*only readers 0 to 1 are registered"):
        context.send_event_to_source_reader(slot, SourceEvent("hello"))


def context(kind: str) -> SplitEnumeratorContext[Any]:
    """Returns the context of a query, or the context that a child of a hybrid source gets."""
    own = CoordinatorContext(2, "host")
    active = cast(Any, None)  # no call of these tests uses it
    return own if kind == "own" else ChildContext(own, active, {}, at_once=True)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({0: [MemorySplit("a")]}, r"was given \{0: .*; it takes a SplitsAssignment"),
        (None, "was given None; it takes a SplitsAssignment"),
        (SplitsAssignment([MemorySplit("a")]), "of a mapping from subtask ids to lists of splits"),  # type: ignore[arg-type]
        (SplitsAssignment({0: MemorySplit("a")}), "of a mapping from subtask ids to lists of splits"),  # type: ignore[arg-type]
        (SplitsAssignment({0: "ab"}), "of a mapping from subtask ids to lists of splits"),  # type: ignore[type-var]
    ],
)
@pytest.mark.parametrize("kind", ["own", "child"])
def test_a_wrong_assignment_is_named(kind: str, given: Any, why: str) -> None:
    with pytest.raises(ContractError, match=rf"assign_splits\(\) .*{why}"):
        context(kind).assign_splits(given)


def nothing(*_: object) -> None: ...


@pytest.mark.parametrize(
    ("method", "arguments", "why"),
    [
        ("retire_splits", ["abc"], "was given 'abc'; it takes a collection of split ids"),
        ("retire_splits", [None], "was given None; it takes a collection of split ids"),
        ("retire_splits", [[MemorySplit("a")]], "it takes a collection of split ids, which are text"),
        ("call_async", [None, nothing], "was given None as callable; it must be a function"),
        ("call_async", [nothing, 5], "was given 5 as handler; it must be a function"),
        (
            "call_async",
            [nothing, nothing, "1"],
            "was given '1' as initial_delay_ms; it must be an int, not negative",
        ),
        ("call_async", [nothing, nothing, None, -5], "was given -5 as period_ms"),
        ("call_async", [nothing, nothing, None, 0.5], "was given 0.5 as period_ms"),
        ("run_in_coordinator_thread", ["x"], "was given 'x' as runnable; it must be a function"),
    ],
)
@pytest.mark.parametrize("kind", ["own", "child"])
def test_wrong_arguments_of_the_context_are_refused(
    kind: str, method: str, arguments: list[Any], why: str
) -> None:
    """A call of the context with a wrong argument raises the error itself, and no thread raises it later."""
    with pytest.raises(ContractError, match=rf"{method}\(\) .*{why}"):
        getattr(context(kind), method)(*arguments)


class Greeted(LogEnumerator):
    """An enumerator that assigns its logs to readers as they register."""

    def start(self) -> None:
        pass

    def add_reader(self, subtask_id: int) -> None:
        self._discovered(list(self.world.logs)[: self.assigned + 1], None)


def test_readers_are_registered_for_a_batch_read_too() -> None:
    world = MemoryWorld({"a": [1], "b": [2]})
    with SourceQuery(MemorySource(world, enumerator=Greeted)) as one:
        assert {row["split"] for row in one.read_batch()} == {"a", "b"}


def test_ten_thousand_splits_are_planned_and_restored() -> None:
    world = MemoryWorld({f"s{n}": [n] for n in range(10_000)})
    one = DrivenQuery(world, None, source=MemorySource(world, enumerator=LogEnumerator))
    assert len(one.step() or ()) == 10_000
    one.restart()
    assert one.step() is None
