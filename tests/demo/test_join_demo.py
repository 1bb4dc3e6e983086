"""Tests of the demo of the join: its data, its table and picture, and a small run as a user starts it."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from flip27_stream.demo.comparison import ALIGNED, BUILT_IN
from flip27_stream.demo.event_time import HOUR, MINUTE
from flip27_stream.demo.join.demo import verdict
from flip27_stream.demo.join.display import live, result
from flip27_stream.demo.join.picture import draw
from flip27_stream.demo.join.query import DELAY, MAX_DRIFT, JoinBatch, JoinRun
from flip27_stream.demo.join.shop import PAID_WITHIN, PLACED, Shop, ShopRecords
from flip27_stream.demo.run import positions_of
from tests.demo.support.small_run import PNG, shown_by

NOW = 1_700_000_000_000


@pytest.fixture
def shop() -> Shop:
    return Shop.skewed(3_900, 78, NOW)


@pytest.fixture
def two_splits() -> Shop:
    times = {"orders-0": [10, 20, 30], "payments-0": [15, 500]}
    records = {
        split: ShopRecords(np.array(t, np.int64), np.zeros(len(t), np.int64), b"")
        for split, t in times.items()
    }
    return Shop(records, pairs=10)


def batch(orders: int, payments: int, *, dropped: int = 0, state: int = 0) -> JoinBatch:
    positions = {"orders-0": orders, "payments-0": payments}
    return JoinBatch(
        positions,
        None,
        joined=1,
        dropped=dropped,
        state_rows=state,
        state_bytes=1000 * state,
        milliseconds=700,
    )


def text_of(renderable: object) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_one_partition_of_each_topic_begins_hours_before_the_others(shop: Shop) -> None:
    begins = [int(shop.records[f"orders-{p}"].times[0]) for p in range(3)]
    assert begins[0] == begins[1] > begins[2] + 2 * HOUR
    assert shop.laggard == "orders-2"
    for records in shop.records.values():
        assert (np.diff(records.times) >= 0).all()
        assert records.times[-1] <= NOW // HOUR * HOUR <= NOW
        assert len(records.times) == len(records.orders)


def test_a_batch_of_orders_covers_less_than_the_drift_so_that_the_limit_of_rows_sets_the_pace(
    shop: Shop,
) -> None:
    times = np.sort(np.concatenate([shop.records[f"orders-{p}"].times for p in range(3)]))[-500:]
    spans = times[78:] - times[:-78]
    assert np.allclose(spans, 15 * MINUTE, rtol=0.1)
    assert spans.max() < MAX_DRIFT


def test_each_placed_order_has_one_payment_within_the_time_range_in_the_partition_of_its_number(
    shop: Shop,
) -> None:
    pairs = 0
    for partition in range(3):
        orders, payments = shop.records[f"orders-{partition}"], shop.records[f"payments-{partition}"]
        assert not isinstance(orders.values, bytes)
        is_placed = np.array(orders.values.to_pylist()) == PLACED.encode()
        placed = dict(zip(orders.orders[is_placed], orders.times[is_placed], strict=True))
        paid = dict(zip(payments.orders, payments.times, strict=True))
        assert len(placed) == is_placed.sum() == len(orders.times) / 4
        assert placed.keys() == paid.keys()
        assert all(0 < paid[number] - placed[number] <= PAID_WITHIN for number in placed)
        pairs += len(placed)
    assert shop.pairs == pairs
    assert shop.rows == 5 * pairs >= 3_900


def test_payments_may_come_in_another_order_than_the_orders(shop: Shop) -> None:
    assert (np.diff(shop.records["payments-0"].orders) < 0).any()


def test_the_delay_is_one_that_keeps_every_row() -> None:
    """The delay of the demo's watermarks exceeds max-drift, so that no row is dropped (I4).

    Its records are in order.
    """
    assert DELAY > MAX_DRIFT


def test_positions_are_read_from_offsets_of_either_source() -> None:
    built_in = {"orders": {"0": 5, "12": 7}}
    ours = {"splits": {"orders-0": [5, 99, None], "orders-12": [7, None, None]}, "version": 1}
    assert positions_of(built_in) == positions_of(ours) == {"orders-0": 5, "orders-12": 7}


def test_the_distance_of_both_topics_is_computed(two_splits: Shop) -> None:
    assert two_splits.apart({}) == 0
    assert two_splits.apart({"payments-0": 2}) == 500 - 10  # the orders have not even begun
    assert two_splits.apart({"orders-0": 2, "payments-0": 1}) == 0
    assert two_splits.apart({"orders-0": 3, "payments-0": 1}) == 0
    assert two_splits.apart({"orders-0": 1, "payments-0": 2}) == 500 - 20
    assert two_splits.apart({"orders-0": 3, "payments-0": 2}) == 0  # nothing is left to come


def test_the_table_shows_what_is_lost_and_the_peak_of_the_state(two_splits: Shop) -> None:
    bad = JoinRun(
        BUILT_IN, [batch(0, 2, state=1234), batch(3, 2, dropped=4, state=30)], seconds=2, joined=7, distinct=6
    )
    good = JoinRun(ALIGNED, [batch(3, 1, state=20), batch(3, 2, state=10)], seconds=3, joined=10, distinct=10)
    shown = text_of(result(two_splits, [bad, good]))
    assert cells(shown, "expected rows") == ["10", "10"]
    assert cells(shown, "joined rows") == ["7", "10"]
    assert cells(shown, "joined rows lost") == ["4", "0"]
    assert cells(shown, "joined twice") == ["1", "0"]
    assert cells(shown, "rows dropped as late") == ["4", "0"]
    assert cells(shown, "peak state rows") == ["1,234", "20"]
    assert cells(shown, "peak state memory") == ["1.2 MB", "0.0 MB"]


def test_while_it_runs_the_latest_batches_are_shown(two_splits: Shop) -> None:
    run = JoinRun(BUILT_IN, [batch(n % 4, 2, dropped=n, state=1000 + n) for n in range(9)], started=1.0)
    shown = text_of(live(two_splits, [run, JoinRun(ALIGNED)]))
    assert "1,008" in shown
    assert "1,003" not in shown
    assert "9 batches" in shown
    assert "not begun" in shown  # batches 4 and 8 have read no order
    assert re.search(r"flip27_kafka.* waits", shown)


@pytest.mark.parametrize(("joined", "distinct"), [(9, 9), (11, 10), (10, 9)])
def test_the_verdict_is_on_lost_and_doubled_rows(two_splits: Shop, joined: int, distinct: int) -> None:
    console = Console(file=io.StringIO())
    assert verdict(console, two_splits, JoinRun(ALIGNED, joined=10, distinct=10))
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]
    assert not verdict(console, two_splits, JoinRun(ALIGNED, joined=joined, distinct=distinct))
    assert "flip27_kafka" in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_picture_is_drawn(shop: Shop, tmp_path: Path) -> None:
    ends = {split: len(records.times) for split, records in shop.records.items()}
    half = {split: end // 2 for split, end in ends.items()}
    watermark = NOW - 6 * HOUR
    batches = [JoinBatch(half, None, 5, 0, 50, 1000, 10), JoinBatch(ends, watermark, 5, 2, 20, 1000, 10)]
    path = tmp_path / "join.png"
    draw(shop, [JoinRun(BUILT_IN, batches), JoinRun(ALIGNED, batches, distinct=shop.pairs)], path)
    assert path.read_bytes().startswith(PNG)


@pytest.mark.jvm
def test_the_demo_shows_less_state_and_no_lost_row_with_alignment(tmp_path: Path) -> None:
    """A query that joins two sources of one group loses no row and keeps less state than without alignment."""
    shown = shown_by("flip27_stream.demo.join", tmp_path, records=24_000, rows_per_batch=1_500)

    expected, same = numbers(shown, "expected rows")
    lost, none = numbers(shown, "joined rows lost")
    assert expected == same >= 24_000 // 5
    assert lost > 0
    assert none == 0
    assert numbers(shown, "joined rows") == [expected - lost, expected]
    dropped, kept = numbers(shown, "rows dropped as late")
    assert dropped > 0
    assert kept == 0
    piled_up, small = numbers(shown, "peak state rows")
    assert piled_up > 1.4 * small
    far, near = (float(text.removesuffix(" h")) for text in cells(shown, "apart, at most"))
    assert far > 2
    assert near <= MAX_DRIFT / HOUR


def cells(shown: str, name: str) -> list[str]:
    """Returns the two cells in a row of the demo's table."""
    found = re.search(rf"│ {name} +│ +([\d,.MBh ]+?) │ +([\d,.MBh ]+?) │", shown)
    assert found, shown
    return list(found.groups())


def numbers(shown: str, name: str) -> list[int]:
    return [int(cell.replace(",", "")) for cell in cells(shown, name)]
