"""Values of mappings by a list of keys, in the order of the mapping or not."""

from __future__ import annotations

import pytest

from flip27_stream.in_order import found_in, missing_from, values_of


@pytest.mark.parametrize("mapping", [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 2, "c": 3}])
def test_values_come_in_the_order_of_the_keys(mapping: dict[str, int]) -> None:
    assert list(values_of(["a", "b"], mapping)) == [1, 2]
    assert list(found_in(["a", "b"], mapping)) == [1, 2]


def test_missing_keys_have_no_value_or_raise() -> None:
    assert list(found_in(["a", "b"], {"b": 2})) == [None, 2]
    with pytest.raises(KeyError):
        values_of(["a", "b"], {"b": 2})


@pytest.mark.parametrize(
    ("mapping", "missing"), [({"a": 1, "b": 2}, set()), ({"b": 2, "a": 1}, set()), ({"c": 3, "b": 2}, {"a"})]
)
def test_keys_that_a_mapping_does_not_have(mapping: dict[str, int], missing: set[str]) -> None:
    assert missing_from(mapping, {"a": 1, "b": 2}) == missing
