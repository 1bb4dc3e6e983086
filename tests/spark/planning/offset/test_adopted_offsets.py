"""Offsets of Spark's Kafka source, and others that are like them. No JVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.errors import CheckpointError, ContractError, DataLossError, ForeignCheckpointError
from flip27_stream.spark.planning.offset.offset_log import OffsetLog
from offsets import INITIAL, MARKER
from tests.spark.support.driven_query import DrivenQuery


@pytest.fixture
def log(make: Callable[..., DrivenQuery]) -> OffsetLog:
    source = KafkaSource({"kafka.bootstrap.servers": "there:1", "subscribe": MARKER})
    return OffsetLog(replace(make({}, aligned=False).spec, source=source))


def test_a_topic_may_have_the_name_that_marks_our_offsets(log: OffsetLog) -> None:
    start, end = log.batch({MARKER: {"0": 3}}, {MARKER: {"0": 5}})
    assert start is not None
    assert end is not None
    assert [offset.splits[f"{MARKER}-0"].position for offset in (start, end)] == [3, 5]


def test_a_batch_that_ends_before_it_begins_is_refused_in_words(log: OffsetLog) -> None:
    """Spark's source plans it without data loss being an error, after a topic was deleted and created again."""
    with pytest.raises(DataLossError, match=rf"'{MARKER}-0' from position 6 back to 2.*'failOnDataLoss'"):
        log.batch({MARKER: {"0": 6}}, {MARKER: {"0": 2}})


def test_a_batch_without_a_former_partition_is_a_warning(
    log: OffsetLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark's source fails at such a batch, unless ``failOnDataLoss`` is false."""
    _, end = log.batch({MARKER: {"0": 3, "1": 6}}, {MARKER: {"0": 5}})
    assert end is not None
    assert list(end.splits) == [f"{MARKER}-0"]
    assert f"without {MARKER}-1, which the batch before it has" in caplog.text


@pytest.mark.parametrize("document", [5, "5", [5], {MARKER: "5"}, {MARKER: 1}, {"logOffset": 5}], ids=str)
def test_an_offset_of_another_kind_is_refused_in_words(log: OffsetLog, document: Any) -> None:
    """Spark's rate source stores a number, its file source ``{"logOffset": 5}``."""
    with pytest.raises(CheckpointError):
        log.read(document)
    with pytest.raises(CheckpointError):
        log.batch(dict(INITIAL), document)


@pytest.mark.parametrize("address", ["", "/no/such/socket"], ids=["no session", "a session that is gone"])
def test_a_first_batch_of_unknown_begin_is_refused_in_words(
    make: Callable[..., DrivenQuery], address: str
) -> None:
    """A session of Spark Connect cannot say where the first batch begins that Spark's source planned."""
    source = KafkaSource({"kafka.bootstrap.servers": "there:1", "subscribe": "t"})
    spec = make({}, aligned=False).spec
    log = OffsetLog(replace(spec, source=source, driver=replace(spec.driver, session=address)))
    with pytest.raises(ForeignCheckpointError, match=r"t-0.*sources/.*'startingOffsets'"):
        log.batch(dict(INITIAL), {"t": {"0": 5}})


def test_a_first_batch_that_begins_by_its_options_after_its_end_is_refused_in_words(
    make: Callable[..., DrivenQuery],
) -> None:
    starts = {"startingOffsets": '{"t": {"0": 9}}'}
    source = KafkaSource({"kafka.bootstrap.servers": "there:1", "subscribe": "t", **starts})
    log = OffsetLog(replace(make({}, aligned=False).spec, source=source))
    begins_wrong = (
        r"'t-0' ends in it at position 2, but would begin at 9 by option 'startingOffsets'.*sources/"
    )
    with pytest.raises(ForeignCheckpointError, match=begins_wrong):
        log.batch(dict(INITIAL), {"t": {"0": 2}})
    start, end = log.batch(dict(INITIAL), {"t": {"0": 9}})
    assert [start, end is not None] == [None, True]


def test_a_negative_position_of_a_source_is_refused(log: OffsetLog, monkeypatch: pytest.MonkeyPatch) -> None:
    adopt = KafkaSource.adopt_offset

    def wrong(source: KafkaSource, document: Any) -> Any:
        adopted = adopt(source, document)
        return adopted and replace(adopted, splits=[(split, -1) for split, _ in adopted.splits])

    monkeypatch.setattr(KafkaSource, "adopt_offset", wrong)
    with pytest.raises(ContractError, match=rf"returned position -1 of split '{MARKER}-0'"):
        log.read({MARKER: {"0": 3}})
