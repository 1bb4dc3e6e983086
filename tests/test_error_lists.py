"""Lists of names in the messages of errors."""

from __future__ import annotations

import pytest

from flip27_stream.errors import listed, some_of


def _names(count: int) -> list[str]:
    return [f"n{i}" for i in range(count)]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, ""),
        (1, "n0"),
        (5, "n0, n1, n2, n3, n4"),
        (6, "n0, n1, n2, n3, n4 and 1 more"),
        (1005, "n0, n1, n2, n3, n4 and 1,000 more"),
    ],
)
def test_the_first_names_and_the_number_of_the_others_are_said(count: int, text: str) -> None:
    assert some_of(_names(count)) == text


def test_names_have_the_separator_that_was_asked_for() -> None:
    assert some_of(_names(6), "; ") == "n0; n1; n2; n3; n4 and 1 more"


@pytest.mark.parametrize(("count", "others"), [(8, ", n5, n6, n7"), (9, " and 4 more")])
def test_up_to_eight_known_names_are_listed(count: int, others: str) -> None:
    assert listed({name: name for name in _names(count)}) == "n0, n1, n2, n3, n4" + others


def test_the_nearest_names_are_listed() -> None:
    known = {name: name.upper() for name in _names(100)}
    assert listed(known, near="n42").startswith("N42, ")
    assert listed(known, near="n42").endswith(" and 95 more")
