"""The pauses between tries that fail in a row."""

from __future__ import annotations

import pytest

from flip27_stream.exponential_backoff import doubled_pause, exponential_backoff


@pytest.mark.parametrize(
    ("least", "most", "pauses"),
    [
        (50, 300, [50, 100, 200, 300, 300]),
        (0.05, 1.0, [0.05, 0.1, 0.2, 0.4, 0.8]),
        (500, 100, [500, 500, 500, 500, 500]),
        (0, 1000, [0, 0, 0, 0, 0]),
    ],
)
def test_pauses_double_up_to_the_greatest(least: float, most: float, pauses: list[float]) -> None:
    assert [doubled_pause(least, most, failures) for failures in range(5)] == pauses


def test_very_many_failures_do_not_overflow() -> None:
    assert doubled_pause(50, 1000, 10**9) == 1000
    assert exponential_backoff(50, 1000, 10**9) <= 1200


def test_pauses_vary_by_a_fifth() -> None:
    """The pauses of two clients that lost a broker at the same time differ, so they do not reconnect together."""
    pauses = [exponential_backoff(100, 1000, 1) for _ in range(200)]
    assert 160 <= min(pauses) < 180 < 220 < max(pauses) <= 240
