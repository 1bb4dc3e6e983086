"""The data: a topic of orders with four records for each order, and a topic of payments with one for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from flip27_stream.demo.event_time import HOUR, MINUTE
from flip27_stream.demo.run import Positions
from flip27_stream.testing import KafkaBroker, write_bulk

if TYPE_CHECKING:
    from numpy.typing import NDArray

ORDERS, PAYMENTS = "orders", "payments"
PLACED = "placed"
PAID_WITHIN = 10 * MINUTE
"""The longest time (ms) between an order and its payment."""

_STEPS = ("opened", "changed", "checked", PLACED)
_SPANS = (0.7, 0.7, 1)  # The durations of the partitions, as shares of the longest.
_BATCH_SPAN = 15 * MINUTE  # The event time that a batch covers. With more batches the backlog is longer.
_SEED = 27


@dataclass(frozen=True)
class ShopRecords:
    """The records of a partition, in its order.

    Attributes:
        times: The event times (ms), ascending.
        orders: The number of the order of each record.
        values: The values, one for all records or one for each.
    """

    times: NDArray[np.int64]
    orders: NDArray[np.int64]
    values: pa.BinaryArray | bytes


@dataclass(frozen=True)
class Shop:
    """Both topics.

    Attributes:
        records: The records by split: ``orders-0``, ``payments-0``, ... Records of one order have one partition number.
        pairs: The number of rows in the join of placed orders and payments.
    """

    records: Mapping[str, ShopRecords]
    pairs: int

    @staticmethod
    def skewed(records: int, rows_per_batch: int, now: int) -> Shop:
        """Returns at least ``records`` records, up to the last full hour before ``now`` (ms).

        The last partition of each topic begins earlier than the others. All have as many records an hour. The backlog
        is so long that ``rows_per_batch`` records of the orders cover a quarter of an hour.
        """
        end = now // HOUR * HOUR - PAID_WITHIN
        pairs = -(-records // (len(_STEPS) + 1))
        span = pairs * len(_STEPS) * len(_SPANS) * _BATCH_SPAN // int(rows_per_batch * sum(_SPANS))
        by_split: dict[str, ShopRecords] = {}
        for partition, share in enumerate(_SPANS):
            count = int(np.ceil(pairs * share / sum(_SPANS)))
            numbers = np.arange(count, dtype=np.int64) * len(_SPANS) + partition
            orders = _orders(numbers, end - int(share * span), end)
            placed = orders.times[len(_STEPS) - 1 :: len(_STEPS)]
            by_split[f"{ORDERS}-{partition}"] = orders
            by_split[f"{PAYMENTS}-{partition}"] = _payments(numbers, placed)
        return Shop(by_split, sum(len(r.times) for r in by_split.values()) // (len(_STEPS) + 1))

    @property
    def rows(self) -> int:
        """The number of records in both topics."""
        return sum(len(records.times) for records in self.records.values())

    @property
    def laggard(self) -> str:
        """The split that begins first."""
        return min(self.records, key=lambda split: int(self.records[split].times[0]))

    def write(self, broker: KafkaBroker) -> None:
        """Creates both topics and writes all records."""
        for topic in (ORDERS, PAYMENTS):
            broker.create_topic(topic, len(_SPANS))
        for split, records in self.records.items():
            topic, _, partition = split.rpartition("-")
            keys = pa.array(records.orders).cast(pa.string()).cast(pa.binary())
            write_bulk(
                broker.bootstrap_servers, topic, int(partition), records.times, records.values, keys=keys
            )

    def read_until(self, split: str, position: int) -> int | None:
        """Returns the greatest event time (ms) before ``position``, or ``None`` at position 0."""
        return int(self.records[split].times[position - 1]) if position else None

    def apart(self, positions: Positions) -> int:
        """Returns the time (ms) by which the greatest event time that was read is ahead of the oldest unread record."""
        read = [self.read_until(split, position) for split, position in positions.items()]
        unread = [
            int(records.times[positions.get(split, 0)])
            for split, records in self.records.items()
            if positions.get(split, 0) < len(records.times)
        ]
        furthest = max((time for time in read if time is not None), default=None)
        return max(furthest - min(unread), 0) if unread and furthest is not None else 0


def _orders(numbers: NDArray[np.int64], begin: int, end: int) -> ShopRecords:
    count = len(numbers) * len(_STEPS)
    times = begin + np.arange(count, dtype=np.int64) * (end - begin) // count
    steps = pa.array([step.encode() for step in _STEPS], pa.binary())
    values = steps.take(pa.array(np.tile(np.arange(len(_STEPS)), len(numbers))))
    return ShopRecords(times, np.repeat(numbers, len(_STEPS)), values)


def _payments(numbers: NDArray[np.int64], placed: NDArray[np.int64]) -> ShopRecords:
    times = placed + np.random.default_rng(_SEED).integers(MINUTE, PAID_WITHIN, len(placed), endpoint=True)
    order = np.argsort(times, kind="stable")
    return ShopRecords(times[order], numbers[order], b"paid")
