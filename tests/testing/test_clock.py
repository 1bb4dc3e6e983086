"""Tests of the clock of the test kit."""

from flip27_stream.testing import Clock, ManualClock


def test_a_manual_clock_stands_still_until_it_is_advanced() -> None:
    manual = ManualClock(1_000)
    clock: Clock = manual
    assert [clock(), clock()] == [1_000, 1_000]
    assert manual.advance(250) == 1_250
    assert clock() == 1_250
    manual.advance(-500)
    assert clock() == 750
