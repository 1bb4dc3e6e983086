"""The planner in columns makes the same plans as the planner over views in all random lives, and other plans than its
mutants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.exploring import examples
from tests.watermark_alignment.support.invariants import endless_ties, random_world
from tests.watermark_alignment.support.mutants import MUTANTS, Mutant, apply
from watermark_alignment import planner
from watermark_alignment.planner import Plan, SplitView
from watermark_alignment.split_columns import SplitColumns, plan_in_columns

_LIVES, _MUTANT_LIVES = examples(300), 300
_TIMES = st.none() | st.integers(-3, 20) | st.sampled_from([2**63 - 1, 2**63 - 2, -(2**63) + 1])
_SHARED = {"planner.share", "planner._greatest_fitting"}
"""Functions that both planners use, so that a mutant of them changes both."""


class DifferentPlanError(AssertionError):
    """The planner over views and the planner in columns make different plans."""


def comparing(plan: Callable[..., Plan]) -> Callable[..., Plan]:
    """Returns the planner ``plan``, which fails where the planner in columns makes another plan."""

    def both(splits: Sequence[SplitView], at: Any, **options: Any) -> Plan:
        planned = plan(splits, at, **options)
        columns = SplitColumns.of(splits)
        assert columns is not None
        in_columns = plan_in_columns(columns, at, **options)
        if planned != in_columns or list(planned.ends) != list(in_columns.ends):
            raise DifferentPlanError(f"{planned} is not {in_columns}")
        return planned

    return both


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "plan", comparing(planner.plan))


@pytest.mark.usefixtures("compared")
@pytest.mark.parametrize("options", [{}, {"limit": 2}, {"limit": None}, {"members": 2}])
def test_both_planners_make_equal_plans_of_random_lives(options: dict[str, Any]) -> None:
    for seed in range(_LIVES):
        random_world(Random(seed), **options)


@pytest.mark.usefixtures("compared")
def test_both_planners_make_equal_plans_of_endless_ties() -> None:
    for seed in range(_LIVES // 10):
        endless_ties(Random(seed))


@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if m.where.startswith(("planner", "SplitView"))], ids=lambda m: m.name
)
def test_a_mutant_makes_other_plans(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison finds every mutant of code that both planners have in a form of their own.

    A mutant of shared code changes both.
    """
    apply(mutant, monkeypatch)
    monkeypatch.setattr(planner, "plan", comparing(planner.plan))
    if mutant.where in _SHARED:
        mutant.life(Random(0))
        return
    assert any(has_different_plans(mutant.life, seed) for seed in range(_MUTANT_LIVES))


def has_different_plans(life: Callable[[Random], Any], seed: int) -> bool:
    try:
        life(Random(seed))
    except DifferentPlanError:
        return True
    return False


@st.composite
def views(draw: st.DrawFn) -> SplitView:
    position = draw(st.integers(0, 5))
    return SplitView(
        id=draw(st.sampled_from("abcdefgh")),
        position=position,
        end=position + draw(st.integers(0, 3)),
        read_max=draw(_TIMES),
        next=draw(_TIMES),
        reach=draw(_TIMES),
        quiet_since=draw(_TIMES),
        final=draw(st.booleans()),
    )


@given(
    st.lists(views(), max_size=6, unique_by=lambda view: view.id),
    st.none() | st.integers(0, 9),
    st.sampled_from([0, 5, 2**63 - 1]),
    st.integers(0, 3),
    st.sampled_from([0, 4, 2**63 - 1]),
    st.integers(0, 20),
    _TIMES,
)
def test_both_planners_make_equal_plans_of_any_splits(
    splits: list[SplitView],
    limit: int | None,
    max_drift: int,
    out_of_orderness: int,
    idle_timeout: int,
    now: int,
    floor: int | None,
) -> None:
    """Both planners make equal plans of any splits, also with times at the ends of 64 bits and with a limit of no
    rows.
    """
    readable = {v.id: v for v in splits if v.position < v.end and v.next is not None}

    def at(horizon: int) -> dict[str, tuple[int, int]]:
        read = {split: v.end if (v.next or 0) < horizon else v.position for split, v in readable.items()}
        return {split: (end, end - readable[split].position) for split, end in read.items()}

    known = [v for v in splits if v.id in readable or v.position == v.end]
    comparing(planner.plan)(
        known,
        at,
        limit=limit,
        max_drift=max_drift,
        out_of_orderness=out_of_orderness,
        idle_timeout=idle_timeout,
        now=now,
        floor=floor,
    )


def test_columns_have_the_values_of_views() -> None:
    all_views = [SplitView("b", 1, 2, 3, None, 5, None, True), SplitView("a", 0, 4, None, 7, None, 8)]
    columns = SplitColumns.of(all_views)
    assert columns is not None
    assert columns.views(np.arange(2)) == sorted(all_views, key=lambda view: view.id)


def test_sequence_numbers_do_not_fit_columns() -> None:
    """Positions beyond 64 bits do not fit into columns. Sources with such positions use the planner over views."""
    assert SplitColumns.of([SplitView("shard", 49 * 10**54, 49 * 10**54 + 1)]) is None
