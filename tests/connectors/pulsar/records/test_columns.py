"""Messages that other clients write, and pulsar-client's producer does not: odd times, and text that is not UTF-8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from flip27_stream.api import RecordTimestampAssigner
from flip27_stream.connectors.pulsar.planning.scan import event_times
from flip27_stream.connectors.pulsar.records.columns import rows_of
from flip27_stream.errors import RecordFormatError
from tests.connectors.pulsar.support.memory_partition import SPLIT, MessageAsId

LATEST = (2**63 - 1) // 1000
"""The greatest time (ms) of a column of timestamps."""


@dataclass(frozen=True)
class _Message(MessageAsId):
    """A message of which some fields are bytes, which are decoded when they are read, as in pulsar-client."""

    published: int = 0
    event_time: int = 0
    key: bytes = b""
    read_properties: Mapping[str, bytes] = field(default_factory=dict)

    def publish_timestamp(self) -> int:
        return self.published

    def event_timestamp(self) -> int:
        return self.event_time

    def partition_key(self) -> str:
        return self.key.decode()

    def properties(self) -> Mapping[str, str]:
        return {name: value.decode() for name, value in self.read_properties.items()}


@pytest.mark.parametrize("time", [17 * 10**17, 2**63, 2**64 - 1], ids=["in ns", "2**63", "-1 without a sign"])
def test_a_time_that_fits_no_timestamp_is_the_greatest_one(time: int) -> None:
    """Such a time would otherwise end the query for ever, whatever option is given."""
    late = _Message(1, 2, published=time, event_time=time)
    rows, published = rows_of([_Message(1, 1, published=5), late, _Message(1, 3, published=7, event_time=6)])
    assert published.to_pylist() == [5, LATEST, 7]
    columns = [rows.column(name).cast(pa.int64()).to_pylist() for name in ("__publishTime", "__eventTime")]
    assert event_times(rows, published, RecordTimestampAssigner(), plausible_until=10).tolist() == [5, -1, 7]
    assert columns == [[5000, LATEST * 1000, 7000], [None, LATEST * 1000, 6000]]


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (_Message(3, 1, key=b"\xff"), "a key"),
        (_Message(3, 1, read_properties={"unit": b"\xff"}), "properties"),
    ],
)
def test_text_that_is_not_utf8_is_refused_by_name(message: _Message, what: str) -> None:
    with pytest.raises(
        RecordFormatError, match=f"3:1:0 of {SPLIT.topic} has {what} with bytes that are not UTF-8"
    ):
        rows_of([_Message(3, 0, key=b"usual"), message])
