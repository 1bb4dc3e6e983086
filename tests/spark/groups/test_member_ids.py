"""Sources with one id, and processes with one lineage. No JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from flip27_stream.errors import AlignmentError
from flip27_stream.spark.planning.micro_batch.rate_limit import UNLIMITED
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.members import Make, beat, delete, kill, member_of, several, step
from watermark_alignment.group import group_log


def meet(older: DrivenQuery, younger: DrivenQuery) -> None:
    """Lets both queries plan; then the older one publishes another entry."""
    assert [step(older), step(younger)] == [[], []]
    entry = member_of(older).entry
    step(older)
    older.world.logs["a"] += [101]
    step(older)
    assert member_of(older).entry != entry


def test_al_14_of_two_live_holders_of_one_id_the_younger_fails(make: Make) -> None:
    """Of two live sources with the same id the younger one fails, and the older one goes on. The error names both."""
    older, younger = make({"a": [100]}, source_id="clicks"), make({"b": [100, 101]}, source_id="clicks")
    meet(older, younger)
    with pytest.raises(AlignmentError, match=r"of group 'g' have the id 'clicks': process \d+ on ") as e:
        several(younger)
    for query in (older, younger):
        assert f"lineage {member_of(query).entry.lineage}" in str(e.value)
    younger.coordinator.close()
    older.world.logs["a"] += [102]
    assert step(older) == [102]


def test_al_14_holders_of_one_id_meet_in_a_table_that_was_deleted(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The versions of a table that was created again are not compared with those of the deleted one.

    Which source is the older one is not known any more: the one that comes back later fails, and the other goes on.
    """
    monkeypatch.setattr(group_log, "ALL_RENEWED_S", 0.0)
    older, younger = make({"a": [100]}, source_id="clicks"), make({"b": [100, 101]}, source_id="clicks")
    several(older)
    for _ in range(5):
        beat(older)
    delete(tmp_path / "table")
    step(younger)
    for query in (older, younger, older):
        beat(query)
    with pytest.raises(AlignmentError, match="have the id 'clicks'"):
        several(older)
    assert step(younger) == [100, 101]


def test_a_source_can_take_the_id_of_a_dead_one(make: Make) -> None:
    """A source can take the id of a killed source at once. An entry that has not timed out yet does not prove that
    its process is alive.
    """
    dead, new = make({"a": [100]}, source_id="clicks"), make({"b": [100]}, source_id="clicks")
    step(dead)
    step(dead)
    kill(dead)
    assert [step(new), step(new)] == [[], [100]]


def test_the_two_processes_of_a_self_join_are_two_members(make: Make) -> None:
    """Fact 18: the two processes of a self-join are two members of the group. They have one definition, and each has
    its own lineage.
    """
    one, two = make({"a": [100]}, source_id="clicks"), make({"b": [100, 101]}, source_id="clicks")
    object.__setattr__(two.spec, "definition", one.spec.definition)
    meet(one, two)
    assert step(two) == [100, 101]
    assert len(member_of(two).view.members) == 2


def test_a_copied_checkpoint_is_noticed(make: Make) -> None:
    """Two live processes with one lineage, which come from a copied checkpoint, are noticed. The one whose place was
    taken fails when it plans again, once the other one has read.
    """
    original, copy = make({"a": [100]}), make({"a": [100, 101]})
    step(original)
    copy.offset = original.offset
    assert [step(copy), step(copy)] == [[], [100, 101]]
    original.world.logs["a"] += [101]
    with pytest.raises(AlignmentError, match="from one checkpoint"):
        several(original)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_query_that_is_started_twice_goes_on_once(
    make: Make, leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process that plans from the same checkpoint does not end the first one.

    The second one plans the batch that the first one has logged meanwhile, so Spark ends it. The first one goes on in
    that moment, and holds the other members of the group again afterwards (I3).
    """
    monkeypatch.setattr(group_log, "ALL_RENEWED_S", 0.0)
    first, second = make({"a": [100]}), make({"a": [100, 101]})
    several(first)
    second.offset = first.offset
    first.world.logs["a"] += [101]
    assert step(first) == [101]
    second.coordinator.latest_offset(second.offset, UNLIMITED)
    if leaves:
        second.coordinator.close()
    first.world.logs["a"] += [102]
    assert step(first) == [102]
    second.coordinator.close()
    other = make({"b": [100, 200]}, source_id="other")
    beat(first)
    several(other)
    assert member_of(other).floor() == member_of(first).entry.watermark == 101


def test_a_copied_checkpoint_can_run_beside_the_original_with_an_id_of_its_own(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_log, "ALL_RENEWED_S", 0.0)
    original, copy = make({"a": [100]}), make({"a": [100]}, source_id="copy")
    several(original)
    copy.offset = original.offset
    step(copy)
    for query in (original, copy):
        query.world.logs["a"] += [101, 102]
    assert [step(original), step(copy)] == [[101, 102], [101, 102]]
    several(original)
    several(copy)
