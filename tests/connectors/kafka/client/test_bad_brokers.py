"""The planner's client with fake brokers that hang, are slow, refuse, throttle or answer with errors."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import FetchFrom
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.sasl.sasl_credentials import SaslOptions
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.connectors.kafka.split import EARLIEST, LATEST
from flip27_stream.connectors.kafka.tls.key_stores import StoreType, TrustStore
from flip27_stream.connectors.kafka.tls.ssl_options import SslOptions
from flip27_stream.errors import AuthenticationError, UnreachableError
from tests.connectors.kafka.support.fake_cluster import FakeCluster, fake_cluster, make_certificate
from tests.connectors.kafka.support.fake_cluster_client import (
    ALL,
    BRIEF,
    FIRST,
    SECOND,
    THIRD,
    connected,
    end_of_second,
    ends,
    full_waits,
    planning,
    until_heard,
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls") / "broker.pem")


def tls(certificate: Path) -> SecurityOptions:
    return SecurityOptions("SSL", SslOptions(TrustStore(StoreType.PEM, str(certificate))))


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("hung", [1, 2])
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_client_starts_although_some_bootstrap_servers_hang(
    certificate: Path, hung: int, encrypted: bool, try_first: Callable[[int], None]
) -> None:
    """The brokers accept connections, and answer neither ApiVersions nor the TLS handshake.

    Every start of a client succeeds, whichever broker it tries first.
    """
    security = tls(certificate) if encrypted else SecurityOptions()
    with fake_cluster(certificate=certificate if encrypted else None) as cluster:
        for broker in cluster.brokers[:hung]:
            broker.hang()
        for place, first in enumerate(cluster.brokers):
            try_first(place)
            before = first.connections
            with connected(cluster, security=security, first_contact_timeout_ms=60_000) as client:
                assert client.topics(["t"]).keys() == {"t"}
                assert first.connections > before
                assert client.list_offsets({THIRD: LATEST}, read_committed=False)[0].keys() == {THIRD}


@pytest.mark.usefixtures("quick")
def test_a_client_starts_although_all_bootstrap_servers_are_slow() -> None:
    """A client whose bootstrap servers are all slow waits for one, and does not give up each of
    them for another one."""
    with fake_cluster() as cluster:
        for broker in cluster.brokers:
            broker.delay_s = 0.4
        with connected(cluster, first_contact_timeout_ms=60_000) as client:
            assert client.topics(["t"]).keys() == {"t"}


@pytest.mark.usefixtures("quick")
def test_silent_broker_is_not_asked_for_metadata_again(try_first: Callable[[int], None]) -> None:
    """A client asks another broker for metadata while one of them has not answered."""
    with fake_cluster() as cluster, connected(cluster) as client:
        try_first(0)
        client.topics(["t"])
        silent = cluster.brokers[0]
        silent.silent_about.add("MetadataRequest")
        assert client.any_node() == silent.node
        client.topics(["t"])
        until_heard(lambda: client.any_node() != silent.node)

        def others_are_asked() -> bool:
            before = silent.requests["MetadataRequest"]
            for _ in range(5):
                assert client.topics(["t"]).keys() == {"t"}
            return silent.requests["MetadataRequest"] == before

        until_heard(others_are_asked)  # on a busy machine a healthy broker may miss its turn


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_connection_that_hangs_while_it_opens_is_given_up(certificate: Path, encrypted: bool) -> None:
    """The partitions of a broker that hangs are missing. They come back when the broker answers again."""
    security = tls(certificate) if encrypted else SecurityOptions()
    given = {"security": security, "connection_setup_timeout_ms": 400}
    with (
        fake_cluster(certificate=certificate if encrypted else None) as cluster,
        connected(cluster, **given) as client,
    ):
        hanging = cluster.brokers[1]
        hanging.hang()
        for _ in range(6):  # on a busy machine a healthy broker may miss a round
            until_heard(lambda: ends(client, cluster) == {FIRST, THIRD})
        hanging.hang(False)
        until_heard(lambda: ends(client, cluster) == {FIRST, SECOND, THIRD})


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("late", [False, True])
def test_slow_broker_is_heard_again_after_a_miss(late: bool) -> None:
    """A broker is heard again that is slower than a short wait, than a prompt answer, and than a full wait. Each has
    a cluster of its own, and all run at once."""
    delays_s = [0.06, 0.4, 1.2]
    with ThreadPoolExecutor(len(delays_s)) as pool:
        assert len([*pool.map(lambda delay_s: hear_after_a_miss(delay_s, late=late), delays_s)]) == 3


def hear_after_a_miss(delay_s: float, *, late: bool) -> None:
    with fake_cluster() as cluster, connected(cluster) as client:
        until_heard(lambda: ends(client, cluster, late=late) == ALL)
        slow = cluster.brokers[1]
        slow.freeze()
        for _ in range(2):
            assert SECOND not in ends(client, cluster, late=late)
        slow.delay_s = delay_s
        slow.resume()
        for _ in range(2):
            until_heard(lambda: SECOND in ends(client, cluster, late=late))


@pytest.mark.usefixtures("quick")
def test_broker_that_is_always_slow_does_not_hold_every_round(waits: dict[float, float]) -> None:
    with fake_cluster() as cluster, connected(cluster) as client:
        until_heard(lambda: ends(client, cluster) == ALL)
        cluster.brokers[1].delay_s = 0.8
        waits.clear()
        for _ in range(2):
            until_heard(lambda: SECOND in ends(client, cluster))
        for _ in range(12):
            ends(client, cluster)
        assert len(waits) - full_waits(waits) >= 6


@pytest.mark.usefixtures("quick")
def test_a_frozen_broker_costs_short_waits_and_few_requests(waits: dict[float, float]) -> None:
    """A frozen broker costs short waits and few requests, also in rounds of searches, whose late
    answers are of no use."""
    with fake_cluster() as cluster, connected(cluster) as client:
        until_heard(lambda: ends(client, cluster) == ALL)
        cluster.brokers[1].freeze()
        until_heard(lambda: ends(client, cluster) == {FIRST, THIRD})
        waits.clear()
        began, metadata = time.monotonic(), cluster.requests("MetadataRequest")
        for _ in range(6):
            assert SECOND not in ends(client, cluster)
            assert client.list_offsets({SECOND: 5}, read_committed=False) == [{}]
            assert client.fetch({SECOND: FetchFrom(0, 100)}, read_committed=False, max_bytes=100) == {}
        took = time.monotonic() - began
        assert full_waits(waits) <= 2
        assert cluster.requests("MetadataRequest") - metadata <= 12 + 2 * took
        cluster.brokers[1].resume()
        tries = until_heard(lambda: ends(client, cluster) == ALL)
        # Requests without an answer did not pile up.
        assert cluster.brokers[1].requests["ListOffsetsRequest"] < 8 + took + tries


@pytest.mark.usefixtures("quick")
def test_a_late_answer_is_marked_and_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that comes after its round is marked as late, for it is an end of some time ago.
    It is taken only once."""
    monkeypatch.setattr("flip27_stream.connectors.kafka.client.offset_round.FULL_S", 0.3)
    with fake_cluster() as cluster, connected(cluster) as client:
        until_heard(lambda: ends(client, cluster) == ALL)
        cluster.brokers[1].freeze()
        assert SECOND not in ends(client, cluster)
        cluster.brokers[1].resume()
        answer = end_of_second(client)
        assert (answer.offset, answer.late) == (100, True)
        monkeypatch.setattr("flip27_stream.connectors.kafka.client.offset_round.FULL_S", 60.0)
        cluster.ends[SECOND] = 120
        answer = end_of_second(client)
        assert (answer.offset, answer.late) == (120, False)


@pytest.mark.usefixtures("quick")
def test_a_late_answer_is_not_taken_where_a_current_one_is_needed() -> None:
    with fake_cluster() as cluster, connected(cluster) as client:
        until_heard(lambda: ends(client, cluster) == ALL)
        cluster.brokers[1].freeze()
        assert SECOND not in ends(client, cluster)
        cluster.ends[SECOND] = 120
        cluster.brokers[1].resume()
        assert client.end_offsets([SECOND], read_committed=False) == {SECOND: 120}
        cluster.ends[SECOND] = 130
        assert end_of_second(client).offset == 130


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("everywhere", [False, True])
def test_connections_that_the_network_dropped_silently_are_made_again(everywhere: bool) -> None:
    """A connection that the network cut silently is replaced within the same round, for offsets,
    metadata and fetches."""
    with fake_cluster() as cluster, connected(cluster) as client:
        for _ in range(3):
            assert ends(client, cluster) == {FIRST, SECOND, THIRD}
            for broker in cluster.brokers if everywhere else cluster.brokers[:1]:
                broker.strand()
        assert client.topics(["t"], 60_000).keys() == {"t"}
        assert ends(client, cluster, late=False) == {FIRST, SECOND, THIRD}
        for broker in cluster.brokers:
            broker.strand()
        wanted = dict.fromkeys(cluster.leaders, FetchFrom(0, 100))
        assert client.fetch(wanted, read_committed=False, max_bytes=100).keys() == wanted.keys()


def test_idle_connections_are_made_again() -> None:
    with fake_cluster(1) as cluster, connected(cluster, connections_max_idle_ms=50) as client:
        ends(client, cluster)
        before = cluster.brokers[0].connections
        time.sleep(0.1)
        ends(client, cluster)
        assert cluster.brokers[0].connections > before


def test_a_password_that_one_broker_refuses_is_an_error() -> None:
    """The error is that of Java's SaslAuthenticationException. It names the broker, and has no secret."""
    sasl = SaslOptions("PLAIN", "alice", "hush-hush")
    security = SecurityOptions("SASL_PLAINTEXT", None, sasl)
    with fake_cluster() as cluster, connected(cluster, security=security) as client:
        cluster.brokers[1].refuses = True
        cluster.leaders = {SECOND: 2}
        with pytest.raises(AuthenticationError, match=r"refused the user name.*Invalid username") as caught:
            ends(client, cluster)
        assert cluster.brokers[1].address in str(caught.value)
        assert "hush-hush" not in str(caught.value)


def test_certificate_of_one_broker_that_is_not_trusted(certificate: Path, tmp_path: Path) -> None:
    """The error is that of Java's SslAuthenticationException, for offsets and for fetches. When the broker is trusted
    again, the client goes on."""
    with (
        fake_cluster(certificate=certificate) as cluster,
        connected(cluster, security=tls(certificate), reconnect_backoff_max_ms=100) as client,
    ):
        until_heard(lambda: ends(client, cluster) == ALL)
        odd = cluster.brokers[1]
        odd.untrusted(make_certificate(tmp_path / "other.pem"))
        odd.cut()
        with pytest.raises(AuthenticationError, match=rf"{odd.address} is not trusted"):
            ends(client, cluster)
        with pytest.raises(AuthenticationError, match="is not trusted"):
            client.fetch({SECOND: FetchFrom(0, 100)}, read_committed=False, max_bytes=100)
        odd.untrusted(certificate)
        time.sleep(0.15)  # the longest back-off, plus a fifth of it
        until_heard(lambda: ends(client, cluster) == {FIRST, SECOND, THIRD})


@pytest.mark.usefixtures("quick")
def test_certificates_that_are_renewed_on_disk(certificate: Path, tmp_path: Path) -> None:
    """New connections read them; while they are not there, a connection fails and is tried again."""
    renewed, trusted = make_certificate(tmp_path / "renewed.pem"), tmp_path / "trusted.pem"
    trusted.write_bytes(certificate.read_bytes())
    with (
        fake_cluster(certificate=certificate) as cluster,
        connected(cluster, security=tls(trusted), reconnect_backoff_max_ms=100) as client,
    ):
        until_heard(lambda: ends(client, cluster) == ALL)
        trusted.unlink()
        cluster.brokers[1].untrusted(renewed)
        cluster.brokers[1].cut()
        assert ends(client, cluster) == {FIRST, THIRD}
        trusted.write_bytes(certificate.read_bytes() + renewed.read_bytes())
        until_heard(lambda: ends(client, cluster) == ALL)


@pytest.mark.usefixtures("quick")
def test_partition_without_a_leader_costs_little(waits: dict[float, float]) -> None:
    """A partition without a leader costs one full wait for the election, and few later. Metadata is asked for
    once a second at most."""
    with fake_cluster() as cluster, connected(cluster) as client:
        cluster.leaders[SECOND] = -1
        until_heard(lambda: ends(client, cluster) == {FIRST, THIRD})
        before = cluster.requests("MetadataRequest")
        took = seconds_of_rounds_without_second(client, cluster, waits)
        assert cluster.requests("MetadataRequest") - before <= 6 + 2 * took
        cluster.leaders[SECOND] = 3
        until_heard(lambda: ends(client, cluster) == {FIRST, SECOND, THIRD})


def seconds_of_rounds_without_second(
    client: KafkaClient, cluster: FakeCluster, waits: dict[float, float]
) -> float:
    """Returns how long (s) ten rounds took. At most two of them wait in full for the second partition."""
    waits.clear()
    began = time.monotonic()
    for _ in range(10):
        assert SECOND not in ends(client, cluster)
    assert full_waits(waits) <= 2
    return time.monotonic() - began


@pytest.mark.usefixtures("quick")
def test_leader_that_always_errs_costs_little(waits: dict[float, float]) -> None:
    with fake_cluster() as cluster, connected(cluster) as client:
        cluster.errors[SECOND] = itertools.repeat(6)
        until_heard(lambda: ends(client, cluster) == {FIRST, THIRD})
        before = cluster.requests("MetadataRequest")
        took = seconds_of_rounds_without_second(client, cluster, waits)
        assert cluster.requests("MetadataRequest") - before <= 6 + 2 * took


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("partitions", [1, 3])
def test_leader_that_is_silent_and_replaced(partitions: int) -> None:
    with fake_cluster(3, partitions) as cluster, connected(cluster) as client:
        ends(client, cluster)
        cluster.brokers[0].freeze()
        assert FIRST not in ends(client, cluster)
        cluster.leaders[FIRST] = 3
        until_heard(lambda: FIRST in ends(client, cluster))


@pytest.mark.usefixtures("quick")
def test_a_client_finds_brokers_that_have_all_moved() -> None:
    """All brokers move to other addresses. The client asks the bootstrap servers within the same
    round, and finds them."""
    with fake_cluster(4) as cluster:
        load_balancer, *_, latest = every = cluster.brokers
        cluster.brokers = every[1:3]
        cluster.leaders = dict.fromkeys(cluster.leaders, 2)
        try:
            with closing(KafkaClient(ConnectionOptions(load_balancer.address))) as client:
                until_heard(lambda: ends(client, cluster) == cluster.leaders.keys())
                for broker in cluster.brokers:
                    broker.down()
                cluster.brokers, cluster.leaders = [latest], dict.fromkeys(cluster.leaders, 4)
                until_heard(lambda: ends(client, cluster) == cluster.leaders.keys())
        finally:
            cluster.brokers = every


@pytest.mark.usefixtures("unhurried")
def test_a_throttled_client_sends_no_request_before_the_time_is_over() -> None:
    """A throttled client sends no request before the time is over, and does not take the broker for a silent one."""
    with fake_cluster(1) as cluster, connected(cluster) as client:
        cluster.brokers[0].throttle_ms = 300
        for _ in range(4):
            assert ends(client, cluster, late=False) == {FIRST}
        assert cluster.brokers[0].impatient == 0


def test_no_answer_about_a_partition_names_the_reason() -> None:
    with fake_cluster() as cluster, connected(cluster, api_timeout_ms=1500) as client:
        until_heard(lambda: ends(client, cluster) == ALL)
        cluster.leaders[SECOND] = -1
        with pytest.raises(UnreachableError, match=r"about t-1 within 1\.5 s: it has no leader"):
            client.offsets({FIRST: EARLIEST, SECOND: EARLIEST}, read_committed=False)
        cluster.leaders[SECOND] = 2
        cluster.brokers[1].down()
        with pytest.raises(UnreachableError, match=r"about t-1 .*broker 2 at 127.*refused"):
            client.offsets({SECOND: EARLIEST}, read_committed=False)


@pytest.mark.usefixtures("quick")
def test_partition_that_stays_unanswered_fails_the_query() -> None:
    """A partition that stays unanswered fails the query, after as long as Spark's source tries."""
    with fake_cluster() as cluster, planning(cluster, BRIEF) as query:
        until_heard(lambda: query.ranges().keys() == {"t-0", "t-1", "t-2"})
        cluster.brokers[1].freeze()
        with pytest.raises(UnreachableError, match=r"no answer about t-1 .*broker 2 at 127"):
            until_heard(lambda: query.ranges().keys() == {"t-1"})


def test_broker_that_refuses_this_client_fails_the_query(certificate: Path, tmp_path: Path) -> None:
    """A refusal fails the query, in a plan and in the discovery of partitions, which repeats after other errors."""
    trusting = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(certificate),
        "scan.topic-partition-discovery.interval": "1 s",
    }
    with fake_cluster(1, certificate=certificate) as cluster, planning(cluster, trusting) as query:
        assert query.ranges().keys() == {"t-0"}
        (broker,) = cluster.brokers
        broker.untrusted(make_certificate(tmp_path / "other.pem"))
        broker.cut()
        with pytest.raises(AuthenticationError):
            query.ranges()
        with pytest.raises(AuthenticationError):
            query.context.run_periodic()
