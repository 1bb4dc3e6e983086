"""The writer of a catalog's table warns of mistakes in ``withWatermark``, which no other listener can see there.

The notes are those of a real coordinator, and go through a real spool. The session that would write them is a mock.
No JVM.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from flip27_stream.testing import wait_until
from tests.spark.queries.support.query_in_spark import InSpark
from tests.spark.support.driven_query import NOW, DrivenQuery
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment import CatalogTableWriter, catalog_writer
from watermark_alignment.monitoring.status import StatusReader
from watermark_alignment.table.batch_note import KEY
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

Make = Callable[..., DrivenQuery]

STEADY = {split: list(range(1_000_000, 1_000_100)) for split in ("a", "b")}
SHORT = "The delay of withWatermark in query 'counts' is 10ms. It must be longer than max-drift (10ms)"
OTHER = "withWatermark in query 'counts' uses another event time than alignment does: in batch 1"


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CatalogTableWriter]:
    monkeypatch.setattr(catalog_writer, "spool_root_of", lambda spark: str(tmp_path / "user" / "warehouse"))
    monkeypatch.setattr(catalog_writer, "_create_table", lambda spark, table: None)
    writer = CatalogTableWriter(MagicMock(), "main.web.split_watermarks")
    yield writer
    writer.close()


def spool_note(query: DrivenQuery, writer: CatalogTableWriter, text: str | None = None) -> None:
    """Puts the newest note of the query into the spool, and lets the writer write what is there."""
    for news in StatusReader(SplitWatermarkTable(str(query.table), {})).read(NOW).members.values():
        if news.note is not None:
            batch = news.note.batch
            writer.spool.append("app", batch, split_rows(batch), {KEY: text or news.note.to_text()})
    writer.write_pending()


@pytest.mark.parametrize(
    ("delay", "shift", "said"),
    [(10, 0, SHORT), (1000, 3_600_000, OTHER), (1000, 0, None)],
    ids=["delay", "column", "right"],
)
def test_each_mistake_in_with_watermark_is_warned_of_once(
    make: Make,
    writer: CatalogTableWriter,
    caplog: pytest.LogCaptureFixture,
    delay: int,
    shift: int,
    said: str | None,
) -> None:
    query = InSpark(make(STEADY), delay, lambda time: time + shift, writer)
    for _ in range(6):
        query.step()
        spool_note(query.watched.query, writer)
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [said is not None and said in text for text in warnings] == [True] * (said is not None)


def test_a_restart_with_a_greater_max_drift_and_a_longer_delay_is_not_warned_of(
    make: Make, writer: CatalogTableWriter, caplog: pytest.LogCaptureFixture
) -> None:
    """The delay of the former run is not compared with the max-drift of the new one."""
    query = InSpark(make(STEADY), 1000, listener=writer)
    for batch in range(8):
        if batch == 4:
            query.restart(3000, **{"scan.watermark.alignment.max-drift": "2 s"})
        query.step()
        spool_note(query.watched.query, writer)
    assert caplog.records == []


def test_a_note_that_cannot_be_read_does_not_keep_rows_from_the_table(
    make: Make, writer: CatalogTableWriter
) -> None:
    query = InSpark(make(STEADY), 10, listener=writer)
    for _ in range(3):
        query.step()
        spool_note(query.watched.query, writer, text='{"group": 7}')
    assert writer.spool.pending() == {}


def test_a_spool_that_is_cleaned_up_has_a_writer_again(writer: CatalogTableWriter) -> None:
    """Temporary files are deleted while a session runs. Queries that start later need the spool and its lock."""
    writer.onQueryStarted(MagicMock())
    assert writer.spool.has_writer()
    shutil.rmtree(writer.spool.folder.parent.parent)
    wait_until(writer.spool.folder.exists, "the folder", 30)
    wait_until(writer.spool.has_writer, "the lock of the writer", 30)


def test_a_writer_that_gets_no_thread_gets_it_later(
    writer: CatalogTableWriter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    progress = MagicMock(**{"progress.json": "{}"})
    monkeypatch.setattr(catalog_writer, "our_sources", lambda _: [])
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        writer.onQueryStarted(MagicMock())
        writer.onQueryProgress(progress)
    assert len([message for message in caplog.messages if "can't start new thread" in message]) == 1
    writer.spool.append("app", 1, split_rows(1), {})
    assert not writer.flush(0)
    writer.onQueryProgress(progress)
    assert writer.flush(60)
