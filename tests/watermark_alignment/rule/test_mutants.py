"""Mutants of the planner, each with one error. Each breaks an invariant, which shows that the invariants can fail."""

from __future__ import annotations

from random import Random

import pytest

from tests.watermark_alignment.support.mutants import MUTANTS, Mutant, apply

_LIVES = 300


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_each_mutant_of_the_rule_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least one random life with the mutant breaks the invariant that ``caught_by`` names."""
    apply(mutant, monkeypatch)
    for seed in range(_LIVES):
        if mutant.life(Random(seed)).breached(mutant.caught_by):
            return
    pytest.fail(f"no life of {_LIVES} broke {mutant.caught_by}")
