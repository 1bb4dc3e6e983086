"""A demo that fails shows the message of this project's error. No JVM."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from flip27_stream.demo import command

RAISED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Error
flip27_stream.errors.UnreachableError: No broker of 'localhost:1' answered.

\tat org.apache.spark.sql.execution.python.Runner.fail(Runner.scala:1)
\tat java.lang.Thread.run(Thread.java:840) SQLSTATE: XXKST"""


def test_a_demo_that_fails_shows_our_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*arguments: object) -> bool:
        raise StreamingQueryException(RAISED)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["demo"])
    monkeypatch.setattr(command, "_run", fails)
    assert command.main("demo", "A demo.", lambda _: True, "picture.png", records=1, rows_per_batch=1) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "UnreachableError: No broker of 'localhost:1' answered." in shown
    assert "Thread.java" not in shown


def test_a_demo_that_fails_in_spark_says_where_help_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*arguments: object) -> bool:
        raise StreamingQueryException(
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Python worker failed to connect "
            "back. SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 1]\nCurrent State: INITIALIZING"
        )

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["demo"])
    monkeypatch.setattr(command, "_run", fails)
    assert command.main("demo", "A demo.", lambda _: True, "picture.png", records=1, rows_per_batch=1) == 1
    shown = capsys.readouterr().out
    assert "Python worker failed to connect back." in shown
    assert "docs/troubleshooting.md says what to do" in shown
    assert "Current State" not in shown


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--records", "0"], "expected a whole number > 0, not '0'"),
        (["--rows-per-batch", "many"], "expected a whole number > 0, not 'many'"),
        (["--picture", "nowhere/picture.png"], "expected a file in a folder that exists"),
        ([], "demo-output for the output cannot be made (No such file or directory)"),
    ],
)
def test_wrong_arguments_and_folders_are_refused_before_servers_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    monkeypatch.chdir("/proc")  # where nobody can make a folder
    monkeypatch.setattr("sys.argv", ["demo", *arguments])
    monkeypatch.setattr(command, "_run", lambda *_: pytest.fail("servers are started"))
    with pytest.raises(SystemExit) as end:
        command.main("demo", "A demo.", lambda _: True, "picture.png", records=1, rows_per_batch=1)
    assert end.value.code == 2
    assert why in capsys.readouterr().err
