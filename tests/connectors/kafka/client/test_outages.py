"""All brokers of a cluster are silent under a running query, for longer than one request may take."""

from __future__ import annotations

import time

import pytest

from flip27_stream.errors import UnreachableError
from tests.connectors.kafka.support.fake_cluster import FakeCluster, fake_cluster
from tests.connectors.kafka.support.fake_cluster_client import ALL, planning, until_heard

API_S = 0.5
OPTIONS = {"kafka.default.api.timeout.ms": "500", "kafka.request.timeout.ms": "400"}


def stop(cluster: FakeCluster, how: str) -> None:
    for broker in cluster.brokers:
        getattr(broker, how)()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("ends_by", "begins_by"), [("down", "up"), ("freeze", "resume")])
@pytest.mark.parametrize("more", [0, 1])
def test_a_query_goes_on_after_an_outage_of_all_brokers(ends_by: str, begins_by: str, more: int) -> None:
    """The query goes on at its offsets after the outage, whether there are records to read or not."""
    with fake_cluster() as cluster, planning(cluster, {**OPTIONS, "fetchOffset.numRetries": "100"}) as query:
        until_heard(lambda: len(query.move_to_ends()) == len(ALL))
        stop(cluster, ends_by)
        cluster.ends = {tp: end + more for tp, end in cluster.ends.items()}
        until = time.monotonic() + 4 * API_S
        while time.monotonic() < until:
            assert query.ranges() == {}
        stop(cluster, begins_by)
        until_heard(lambda: {r.end for r in query.ranges().values()} == {100 + more})


@pytest.mark.usefixtures("quick")
def test_an_outage_that_does_not_end_fails_the_query() -> None:
    """An outage that does not end fails the query, as the silence of one partition does."""
    with fake_cluster() as cluster, planning(cluster, {**OPTIONS, "fetchOffset.numRetries": "4"}) as query:
        until_heard(lambda: len(query.move_to_ends()) == len(ALL))
        stop(cluster, "down")
        with pytest.raises(UnreachableError, match=r"no answer about t-\d for \d s: .*Check that the"):
            until_heard(lambda: bool(query.ranges()))
