"""Options that a user gave, in Spark's ``option()`` or in code."""

from __future__ import annotations

from typing import Any

import pytest

from flip27_stream import FileSource, KafkaSource
from flip27_stream.errors import OptionError
from flip27_stream.options.given import given_options

KAFKA = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "clicks"}


def test_numbers_and_booleans_become_text_as_in_spark() -> None:
    assert given_options({"maxRows": 5, "Strict": True, "rate": 1.5, "topic": "a"}) == {
        "maxrows": "5",
        "strict": "true",
        "rate": "1.5",
        "topic": "a",
    }


@pytest.mark.parametrize(
    ("value", "said"), [(None, "'Password' is None"), (b"hunter2", "'Password' has a value of type bytes")]
)
def test_a_value_of_another_type_is_named_and_not_shown(value: object, said: str) -> None:
    with pytest.raises(OptionError, match=said) as refused:
        given_options({"Password": value})
    assert "hunter2" not in str(refused.value)


def test_sources_in_code_take_numbers_and_booleans() -> None:
    options: Any = KAFKA | {"maxOffsetsPerTrigger": 5, "failOnDataLoss": False}
    assert KafkaSource(options).read_limits.max_rows == 5


@pytest.mark.parametrize("make", [KafkaSource, FileSource])
def test_options_are_a_mapping(make: Any) -> None:
    with pytest.raises(OptionError, match=r"as a dict, such as .*, not as str"):
        make("/data/history")
