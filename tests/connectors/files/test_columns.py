"""Tests of how columns are found by their names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.files.layout.columns import find_column, find_columns

NAMES = st.lists(st.text("aAbBİıß", max_size=2), max_size=6)


@given(names=NAMES, wanted=NAMES)
def test_many_columns_are_found_as_each_of_them(names: list[str], wanted: list[str]) -> None:
    assert find_columns(names, wanted) == [find_column(names, name) for name in wanted]


def test_many_columns_are_found_in_one_pass() -> None:
    """The time to read a file does not grow with the square of the number of its columns."""

    class Name(str):
        __slots__ = ()
        lowered = 0

        def lower(self) -> str:
            Name.lowered += 1
            return super().lower()

    count = 100
    found = find_columns(
        [Name(f"column{n}") for n in range(count)], [Name(f"Column{n}") for n in range(count)]
    )
    assert found == list(range(count))
    assert Name.lowered == 2 * count
