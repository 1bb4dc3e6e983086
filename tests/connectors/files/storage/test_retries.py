"""Failed looks: temporary errors are tried again for a limited time, and all other errors fail the query at once.

No JVM.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flip27_stream.connectors.files import FileSource
from flip27_stream.connectors.files.storage import retries
from flip27_stream.connectors.files.storage.listing import FileListing
from flip27_stream.connectors.files.storage.retries import Retries
from flip27_stream.connectors.files.storage.storage_errors import storage_error
from flip27_stream.errors import ConnectorError, Flip27Error, UnreachableError
from tests.connectors.files.support.delta_tables import fails, reads
from tests.connectors.files.support.file_query import FileQuery, write
from tests.support.module_time import replace_time


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retries, "pause_s", 0.01)
    monkeypatch.setattr(Retries, "time_limit_s", 0.3)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write(tmp_path / "data" / "a.parquet", 1)
    return tmp_path / "data"


def running(folder: Path) -> FileQuery:
    reading = FileQuery({"path": str(folder), "source.monitor-interval": "1 ms"}, available_now=False)
    reading.run()
    return reading


def failing(raises: Callable[[], Exception]) -> Callable[..., object]:
    def listing(*_: object) -> object:
        raise raises()

    return listing


def test_a_folder_that_is_missing_for_a_moment_is_listed_again(data: Path) -> None:
    reading = running(data)
    data.rename(data.with_name("away"))
    reading.run()
    data.with_name("away").rename(data)
    write(data / "b.parquet", 1, ids=100)
    reads(reading, 200)
    assert set(reading.ids().values()) == {1}


def test_a_new_query_fails_at_once_if_its_first_listing_fails(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that goes on repeats a failed first look. A new query fails at once, since its path may be wrong."""
    options = {"path": str(data), "source.monitor-interval": "1 ms"}
    schema = FileSource(options).schema
    reading = FileQuery(options, available_now=False, schema=schema)
    reading.run()
    write(data / "b.parquet", 1, ids=100)
    under, failures = FileListing._under, [OSError(5, "Input/output error")] * 3

    def sometimes(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return under(*arguments)

    monkeypatch.setattr(Retries, "time_limit_s", 3600)
    monkeypatch.setattr(FileListing, "_under", sometimes)
    reading.restart()
    reads(reading, 200)
    assert set(reading.ids().values()) == {1}
    failures.append(OSError(5, "Input/output error"))
    with pytest.raises(UnreachableError, match=r"Listing .* failed: .*Input/output error"):
        FileQuery(options, schema=schema).run()


def test_a_folder_that_stays_missing_fails_the_query(data: Path) -> None:
    """The error says that the folder is missing, and that the query tried for some time."""
    reading = running(data)
    shutil.rmtree(data)
    with pytest.raises(UnreachableError, match=r"Path '.*data' does not exist .* tried repeatedly for"):
        fails(reading)


def test_a_listing_that_keeps_failing_fails_the_query(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = running(data)
    monkeypatch.setattr(FileListing, "_under", failing(lambda: OSError(5, "Input/output error")))
    with pytest.raises(UnreachableError, match=r"Listing .* failed: .*Input/output error"):
        fails(reading)


@pytest.mark.parametrize(
    "refusal",
    [
        PermissionError(13, "Permission denied"),
        OSError("AWS Error ACCESS_DENIED during ListObjectsV2 operation"),
    ],
)
def test_a_listing_that_is_refused_fails_at_once(
    data: Path, monkeypatch: pytest.MonkeyPatch, refusal: OSError
) -> None:
    monkeypatch.setattr(Retries, "time_limit_s", 3600)
    reading = running(data)
    monkeypatch.setattr(FileListing, "_under", failing(lambda: refusal))
    with pytest.raises(ConnectorError, match=r"(?i)access_denied|permission denied"):
        fails(reading)


def test_the_time_begins_anew_after_a_look_that_succeeds() -> None:
    outcomes: list[Flip27Error | int] = [UnreachableError("away"), 1, UnreachableError("away"), 2]

    def look() -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Flip27Error):
            raise outcome
        return outcome

    trying = Retries()
    assert [trying(look), trying(look)] == [1, 2]


def test_a_look_in_which_the_process_was_suspended_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed look that took long is made again: a suspended process had no time to wait for an answer."""
    clock, outcomes = SimpleNamespace(now=0.0), [1, None]

    def look() -> int:
        clock.now += 1000
        if (outcome := outcomes.pop()) is None:
            raise UnreachableError("the connection was lost")
        return outcome

    replace_time(monkeypatch, retries.__name__, monotonic=lambda: clock.now)
    assert Retries()(look) == 1


def test_closed_retries_do_not_try_again() -> None:
    trying = Retries()
    trying.close()
    assert trying(failing(lambda: UnreachableError("away"))) is None


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (OSError(5, "Input/output error"), True),
        (ConnectionResetError("reset"), True),
        (TimeoutError("timed out"), True),
        (OSError("When listing: AWS Error NETWORK_CONNECTION: curlCode: 7"), True),
        (OSError("AWS Error SLOW_DOWN (HTTP status 503)"), True),
        (PermissionError(13, "Permission denied"), False),
        (OSError("AWS Error ACCESS_DENIED during HeadObject operation: No response body."), False),
        (OSError("Generic S3 error: <Code>InvalidAccessKeyId</Code>"), False),
        (OSError("Generic S3 error: SignatureDoesNotMatch"), False),
        (OSError("Server returned 403 Forbidden"), False),
    ],
)
def test_errors_that_last_are_told_from_errors_that_pass(error: OSError, passes: bool) -> None:
    assert isinstance(storage_error("It failed", error), UnreachableError) == passes


def test_a_cause_is_one_line_without_colours_and_foreign_stacks() -> None:
    text = "Kernel error\n   \x1b[31m↳\x1b[0m HTTP\n   error.\n   0: <unknown>\n   1: start_thread"
    assert str(storage_error("It failed", OSError(text))) == "It failed: Kernel error HTTP error."
