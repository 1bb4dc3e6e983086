"""Tests of the styles of lines: lines that lie on each other can be told apart."""

from __future__ import annotations

import pytest

from watermark_alignment.monitoring.plotting.line_styles import LineStyle, line_style


@pytest.mark.parametrize("lines", range(1, 29))
def test_each_of_equal_lines_shows(lines: int) -> None:
    """Each line has a place in which every line above it has a gap or is narrower."""
    styles = [line_style(n, lines) for n in range(lines)]
    for n, style in enumerate(styles):
        assert any(
            has_dash(style, at) and all(above.width < style.width for above in styles[n + 1 :] if has_dash(above, at))
            for at in range(100)
        )  # fmt: skip


@pytest.mark.parametrize("lines", range(1, 29))
def test_no_two_entries_of_a_legend_are_equal(lines: int) -> None:
    assert (
        len({(style.color, style.dashes) for style in (line_style(n, lines) for n in range(lines))}) == lines
    )


@pytest.mark.parametrize("lines", range(1, 29))
def test_each_of_equal_dots_shows(lines: int) -> None:
    """Each dot is smaller than the one below it."""
    sizes = [line_style(n, lines).for_matplotlib()["markersize"] for n in range(lines)]
    assert sizes == sorted(set(sizes), reverse=True)


@pytest.mark.parametrize("lines", range(1, 8))
def test_up_to_seven_lines_have_no_gaps(lines: int) -> None:
    assert {line_style(n, lines).for_matplotlib()["linestyle"] for n in range(lines)} == {"-"}


def has_dash(style: LineStyle, at: float) -> bool:
    """Returns whether a line has a dash at this distance (points) from its begin."""
    if not style.dashes:
        return True
    dash, gap = style.dashes
    return (at + style.offset) % (dash + gap) < dash
