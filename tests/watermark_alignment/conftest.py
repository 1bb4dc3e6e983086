"""Runs the command ``python -m watermark_alignment`` in the process of the tests."""

from __future__ import annotations

import pytest

from tests.watermark_alignment.support.command import MINUTE, Run
from tests.watermark_alignment.support.table_rows import START_MS
from watermark_alignment.__main__ import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Returns a function that runs the command with the clock a minute after ``START_MS``, and returns its exit code,
    output and errors.
    """
    monkeypatch.setattr("watermark_alignment.__main__.now_ms", lambda: START_MS + MINUTE)
    monkeypatch.delenv("COLUMNS", raising=False)

    def command(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(arguments)
        except SystemExit as error:
            code = int(error.code or 0)
        return code, *capsys.readouterr()

    return command
