"""Mistakes in a source raise errors when it is registered, or when its query starts. No JVM."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from examples.log_folder import LogFolder
from flip27_stream.api import ReadLimits
from flip27_stream.errors import ContractError
from flip27_stream.spark.data_source import data_source
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.memory_source import MemorySource, MemoryWorld


def folder(**attributes: Any) -> LogFolder:
    return type("Careless", (LogFolder,), attributes)("/logs")  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"t": "string"}, "must be a pyarrow.Schema"),
        (pa.schema([]), "at least one column"),
        (pa.schema([("t", "string"), ("t", "string")]), "each of another name"),
        (pa.schema({"t": pa.timestamp("ns")}), r"make it timestamp\[us\]"),
        (pa.schema({"t": pa.timestamp("us", "Europe/Berlin")}), "tz=UTC"),
        (pa.schema({"t": pa.large_string()}), "make it string"),
        (pa.schema({"t": pa.uint8()}), "Spark has no such type"),
    ],
)
def test_columns_that_spark_does_not_have_are_refused(schema: Any, why: str) -> None:
    with pytest.raises(ValueError, match=f"(?s)ource 'logs'.*{why}"):
        data_source(folder(schema=schema), "logs")


def test_a_source_that_cannot_be_pickled_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"Source 'logs' cannot be sent.*lock.*in its enumerator and readers"
    ):
        data_source(folder(lock=threading.Lock()), "logs")


@pytest.mark.parametrize("given", ["logs", LogFolder, None])
def test_an_object_that_is_no_source_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="Give data_source"):
        data_source(given, "logs")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("boundedness", "BOUNDED", "boundedness is 'BOUNDED'; it must be an object of Boundedness"),
        ("boundedness", None, "boundedness is None"),
        ("fingerprint", "", "fingerprint is ''.*not empty"),
        ("fingerprint", 7, "fingerprint is 7; it must be an object of str"),
        ("read_limits", None, "read_limits is None; it must be an object of ReadLimits"),
        ("read_limits", {"max_rows": 1}, "read_limits is .*ReadLimits"),
        ("read_limits", ReadLimits(max_rows="10"), "max_rows = '10'; it must be an int"),  # type: ignore[arg-type]
        ("read_limits", ReadLimits(max_bytes=-1), "max_bytes = -1"),
        ("split_serializer", dict, "split_serializer is .*SimpleVersionedSerializer"),
        ("enumerator_checkpoint_serializer", None, "enumerator_checkpoint_serializer is None"),
    ],
)
def test_properties_of_a_wrong_type_are_refused(name: str, value: object, why: str) -> None:
    """A source with a wrong property is refused when it is registered. A source that was not registered is refused
    when its query starts.
    """
    with pytest.raises(ContractError, match=f"Careless.*{why}"):
        data_source(folder(**{name: value}), "logs")
    careless = type("Careless", (MemorySource,), {name: property(lambda _: value, lambda *_: None)})
    with pytest.raises(ContractError, match=f"Careless.*{why}"):
        DrivenQuery(MemoryWorld({}), None, source=careless(MemoryWorld({})))
