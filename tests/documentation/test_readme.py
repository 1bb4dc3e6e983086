"""The README's code works as it is printed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flip27_stream.testing import KafkaBroker
from watermark_alignment.__main__ import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
COMMANDS = re.findall(r"^python -m watermark_alignment (.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
MINUTE = 60_000


def block(word: str) -> str:
    """Returns the Python block of the README that has this word in it."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (found,) = [block for block in blocks if word in block]
    return str(found)


def run(code: str, printed_and_ours: dict[str, str], names: dict[str, Any]) -> None:
    """Runs printed code after its example strings are replaced."""
    for printed, ours in printed_and_ours.items():
        assert printed in code
        code = code.replace(printed, ours)
    exec(compile(code, "README.md", "exec"), names)


def test_the_quick_start_has_ten_lines() -> None:
    assert len([line for line in block("readStream").splitlines() if line]) == 10


@pytest.mark.jvm
def test_the_quick_start_runs(
    broker: KafkaBroker,
    spark: SparkSession,
    topic: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    clicks = topic(partitions=2)
    begin = time.time_ns() // 1_000_000 // (5 * MINUTE) * (5 * MINUTE) - 60 * MINUTE
    minutes = {0: range(30), 1: range(25)}
    broker.write(
        clicks, [(p, begin + minute * MINUTE, None, b"click") for p in minutes for minute in minutes[p]]
    )
    names: dict[str, Any] = {"spark": spark}

    run(
        block("readStream"),
        {
            '"localhost:9092"': f'"{broker.bootstrap_servers}"',
            '"subscribe", "clicks"': f'"subscribe", "{clicks}"',
            '"/delta/': f'"{tmp_path}/',
        },
        names,
    )

    names["query"].processAllAvailable()
    names["query"].stop()
    # The watermark is at minute 19, so three windows of five minutes are closed.
    counts = spark.read.format("delta").load(f"{tmp_path}/counts")
    assert [row["count"] for row in counts.collect()] == [10, 10, 10]
    status, picture = (
        command.replace("/delta", str(tmp_path)).replace("-o ", f"-o {tmp_path}/").split()
        for command in COMMANDS
    )
    assert status.pop() == "--watch"
    assert main(status) == 0
    assert "2 splits" in capsys.readouterr().out
    assert main(picture) == 0
    assert (tmp_path / "watermarks.png").stat().st_size > 10_000
