"""What Spark 4.2 does with the planning half of a Python streaming source. A release that changes it fails a test.

Each docstring says which code of this project depends on the fact.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.streaming.datasource import ReadLimit

import flip27_stream
from flip27_stream.testing import wait_until
from tests.spark.support.processes import alive
from tests.spark.support.sources.probe_source import Offset, Probe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

PLANNING = ("initialOffset", "prepareForTriggerAvailableNow", "latestOffset", "partitions")


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Probe]:
    def probe(available: int = 3, **behaviour: object) -> Probe:
        made = Probe(tmp_path / tmp_path.name, **behaviour)  # type: ignore[arg-type]
        made.make_available(available)
        return made

    return probe


def test_a_stopped_query_ends_the_planner_with_sigterm(
    spark: SparkSession, make: Callable[..., Probe]
) -> None:
    """Fact 2: Spark ends the planner of a stopped query with SIGTERM. ``stop()`` runs because a handler turns SIGTERM
    into SystemExit.

    Under load the end of the socket can come first. Then ``stop()`` runs because of that, and the signal must not
    break it off.
    """
    probe = make(exit_on_sigterm=True)
    query = probe.start(probe.load(spark))
    wait_until(lambda: probe.logged("commits"), "batch 0")
    planner = probe.calls("latestOffset")[0].pid
    query.stop()
    wait_until(lambda: not alive(planner), "the end of the planner")
    assert probe.methods("SIGTERM", "stop")[-1:] == ["stop"]


def test_stop_is_called_after_an_error_of_the_planner(
    spark: SparkSession, make: Callable[..., Probe]
) -> None:
    """Fact 2: ``stop()`` is called after an error of the planner."""
    probe = make(fails_in="latestOffset")
    with pytest.raises(StreamingQueryException):
        probe.start(probe.load(spark)).awaitTermination()
    wait_until(lambda: probe.methods("stop"), "stop()")


def test_the_initial_offset_is_not_logged_and_is_asked_again_for_a_replay(
    spark: SparkSession, make: Callable[..., Probe]
) -> None:
    """Fact 5: the initial offset is not in the offset log, and a replay asks for it again. This is why it is a
    constant, and why the first end offset has the begins of its splits.
    """
    probe = make(fails_in="read")
    stream = probe.load(spark)
    with pytest.raises(StreamingQueryException):
        probe.start(stream).awaitTermination()
    assert (probe.logged("offsets"), probe.logged("commits")) == ([0], [])
    assert probe.logged_offset(0) == {"n": 3}
    first_run = probe.methods("initialOffset")

    probe.repair()
    probe.forget_calls()
    query = probe.start(stream)
    wait_until(lambda: probe.logged("commits") == [0], "batch 0 replayed")
    query.stop()
    assert len(first_run) == 2
    assert probe.methods(*PLANNING)[:2] == ["initialOffset", "partitions"]
    assert probe.calls("partitions")[0].arguments == {"start": {"n": 0}, "end": {"n": 3}}


def test_offsets_are_compared_as_text(spark: SparkSession, make: Callable[..., Probe]) -> None:
    """Fact 6: Spark compares offsets as text. This is why the keys of an offset are sorted, and why ``start`` itself
    is returned when nothing changes.
    """

    def in_another_order(probe: Probe, start: Offset, limit: ReadLimit) -> Offset:
        return dict(reversed(start.items())) if len(start) == 2 else {"n": 0, "m": 0}

    probe = make(next_offset=in_another_order)
    query = probe.start(probe.load(spark))
    wait_until(lambda: len(probe.logged("commits")) >= 3, "batches of nothing")
    query.stop()
    assert {tuple(probe.logged_offset(n)) for n in range(2)} == {("n", "m"), ("m", "n")}


def test_batch_0_runs_even_empty_and_no_other_does(spark: SparkSession, make: Callable[..., Probe]) -> None:
    """Fact 7: batch 0 runs even if it is empty, and stores the offsets to which ``latest`` was resolved. No other
    empty batch runs, on which I8 depends.
    """
    probe = make(available=0)
    query = probe.start(probe.load(spark))
    wait_until(lambda: len(probe.calls("latestOffset")) > 50, "plans with nothing to read")
    query.stop()
    assert probe.logged("offsets") == probe.logged("commits") == [0]
    assert {str(call.arguments) for call in probe.calls("partitions")} == {
        "{'start': {'n': 0}, 'end': {'n': 0}}"
    }


def test_a_restart_begins_with_the_last_logged_offset(
    spark: SparkSession, make: Callable[..., Probe]
) -> None:
    """Fact 10: a restarted query begins with the last logged offset, in a new process that knows nothing else."""
    probe = make(available=10)
    stream = probe.load(spark)
    probe.start(stream, availableNow=True).awaitTermination()
    first = probe.calls("latestOffset")[0].pid
    probe.forget_calls()
    probe.make_available(11)
    query = probe.start(stream)
    wait_until(lambda: len(probe.logged("commits")) == 3, "the batch after the restart")
    query.stop()
    again = probe.calls("latestOffset")[0]
    assert again.arguments["start"] == {"n": 10}
    assert again.pid != first
    assert probe.methods("initialOffset") == []


def test_a_replayed_batch_is_partitioned_before_anything_is_planned(
    spark: SparkSession, make: Callable[..., Probe]
) -> None:
    """Fact 10: Spark calls ``partitions`` for a replayed batch before it asks for a plan. This is why ``partitions``
    is a pure function of two offsets.
    """
    probe = make(available=3)
    stream = probe.load(spark)
    probe.start(stream, availableNow=True).awaitTermination()
    probe.make_available(5)
    probe.fails_in = "read"
    with pytest.raises(StreamingQueryException):
        probe.start(probe.load(spark)).awaitTermination()
    probe.repair()
    probe.forget_calls()
    probe.make_available(6)
    query = probe.start(stream)
    wait_until(lambda: probe.logged("commits") == [0, 1, 2], "the replay and one more batch")
    query.stop()
    planning = probe.calls(*PLANNING)
    assert [call.method for call in planning[:2]] == ["partitions", "latestOffset"]
    assert planning[0].arguments == {"start": {"n": 3}, "end": {"n": 5}}
    assert planning[0].pid == planning[1].pid


@pytest.mark.parametrize(
    ("trigger", "limit"),
    [
        ({"processingTime": "0 seconds"}, "ReadMaxRows"),
        ({"availableNow": True}, "ReadMaxRows"),
        ({"once": True}, "ReadAllAvailable"),
    ],
)
def test_the_limit_depends_on_the_trigger(
    spark: SparkSession, make: Callable[..., Probe], trigger: dict[str, object], limit: str
) -> None:
    """Fact 13, PY-05: Trigger.Once reads all that exists, whatever the read limit. Other triggers pass the limit of
    the source.
    """
    probe = make(available=20)
    query = probe.start(probe.load(spark), **trigger)
    wait_until(lambda: probe.logged("commits"), "batch 0")
    query.stop()
    assert {call.arguments["limit"] for call in probe.calls("latestOffset")} == {limit}
    assert probe.logged_offset(0) == {"n": 20 if "once" in trigger else 7}


def test_available_now_ends_at_the_first_answer_that_changes_nothing(
    spark: SparkSession, make: Callable[..., Probe]
) -> None:
    """Fact 14: an AvailableNow run ends at the first unchanged offset. This is why a plan that is held back waits as
    long as frozen records remain (rule 8).
    """

    def pausing(probe: Probe, start: Offset, limit: ReadLimit) -> Offset:
        return start if start["n"] == 2 else {"n": start["n"] + 1}

    probe = make(available=5, next_offset=pausing)
    probe.start(probe.load(spark), availableNow=True).awaitTermination()
    assert probe.logged_offset(probe.logged("commits")[-1]) == {"n": 2}


def test_available_now_is_announced_before_anything_is_planned(
    spark: SparkSession, make: Callable[..., Probe]
) -> None:
    """Fact 15: Spark announces AvailableNow once, before anything is planned, also before a replayed ``partitions``.
    The call has no start offset.
    """
    probe = make(fails_in="read")
    stream = probe.load(spark)
    with pytest.raises(StreamingQueryException):
        probe.start(stream, availableNow=True).awaitTermination()
    first, replay = probe.methods(*PLANNING), slice(len(probe.methods(*PLANNING)), None)
    probe.repair()
    probe.start(stream, availableNow=True).awaitTermination()
    for run in (first, probe.methods(*PLANNING)[replay]):
        assert run[0] == "prepareForTriggerAvailableNow"
        assert run.count("prepareForTriggerAvailableNow") == 1


def test_the_formats_can_be_registered_in_every_session(
    registered: SparkSession, spark: SparkSession
) -> None:
    """The formats can be registered in every session. Spark refuses a name that the active session has, though it is
    free in the session that registers it.
    """
    for session in (spark, spark.newSession(), registered, spark.newSession(), spark):
        flip27_stream.register(session)
        with pytest.raises(AnalysisException, match="must be specified for Kafka source"):
            session.readStream.format("flip27_kafka").load()
