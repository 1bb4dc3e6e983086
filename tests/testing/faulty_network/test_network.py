"""Several faults and several links at a time, and schedules of faults. No JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from flip27_stream.errors import ConnectorError
from flip27_stream.testing import (
    BlackHole,
    CutAfter,
    Delay,
    FaultyNetwork,
    HalfOpen,
    HangInTls,
    Link,
    PlannedFault,
    Refuse,
    Silence,
    Throttle,
    Unreachable,
    fault_schedule,
    wait_until,
)
from tests.testing.support.echo import EchoClient, EchoServer

Connect = Callable[[], EchoClient]


def test_faults_last_together_and_end_one_by_one(link: Link, connect: Connect) -> None:
    first, second = link.apply(BlackHole("to_server")), link.apply(BlackHole("to_client"))
    client = connect()
    assert not client.is_answered()
    first.heal()
    first.heal()
    assert not client.is_answered()
    second.heal()
    assert client.receive(10) == 10
    link.apply(BlackHole())
    link.heal()
    assert client.ask() == 5


def test_all_links_are_cut_and_healed(
    network: FaultyNetwork, link: Link, connect: Connect, server: EchoServer
) -> None:
    client = connect()
    client.ask()
    network.cut("close")
    assert client.receive(1) == 0
    network.link("other", server.address).apply(Refuse())
    link.apply(Refuse())
    network.heal()
    assert connect().ask() == 5
    assert set(network.links) == {"echo", "other"}


def test_a_link_can_change_its_target(link: Link, connect: Connect, server: EchoServer) -> None:
    second = EchoServer()
    try:
        connect().ask()
        link.target = second.address
        connect().ask(7)
        assert (server.got, second.got) == (5, 7)
        link.cut()
    finally:
        second.close()


def test_a_schedule_applies_its_faults_in_time(network: FaultyNetwork, link: Link, connect: Connect) -> None:
    client = connect()
    client.ask()
    plan = [PlannedFault(0, "echo", BlackHole(), 3600), PlannedFault(0, "echo", HalfOpen(), 0.01)]
    with network.playing(plan):
        wait_until(lambda: link.connections == 0, "the second fault to begin and to end")
        assert not connect().is_answered()
    assert connect().ask() == 5
    with (
        pytest.raises(ValueError, match="nowhere"),
        network.playing([PlannedFault(0, "nowhere", Refuse(), 1)]),
    ):
        pass


def test_a_seed_gives_the_same_schedule() -> None:
    plan = fault_schedule(7, ["a", "b"], 1000, every_s=5, lasts_s=(1, 3))
    assert plan == fault_schedule(7, ["a", "b"], 1000, every_s=5, lasts_s=(1, 3))
    assert plan != fault_schedule(8, ["a", "b"], 1000, every_s=5, lasts_s=(1, 3))
    assert 150 < len(plan) < 250
    assert {type(planned.fault) for planned in plan} == {
        *(Refuse, Unreachable, Silence, HangInTls),
        *(Delay, Throttle, BlackHole, CutAfter, HalfOpen),
    }
    assert {planned.link for planned in plan} == {"a", "b"}
    assert [planned.at_s for planned in plan] == sorted(planned.at_s for planned in plan)
    assert all(planned.lasts_s <= min(3, 1000 - planned.at_s) for planned in plan)


def test_a_network_outside_its_context_is_an_error() -> None:
    with pytest.raises(ConnectorError, match="enter the context"):
        FaultyNetwork().link("a", "127.0.0.1:1")


def test_a_closed_network_leaves_no_thread_and_no_socket(server: EchoServer) -> None:
    before = set(threading.enumerate())
    with FaultyNetwork() as network:
        link = network.link("echo", server.address)
        client = EchoClient(link)
        client.ask()
        link.apply(HalfOpen())
        link.apply(Silence())
        with pytest.raises(ValueError, match="'echo' already"):
            network.link("echo", server.address)
    with client.socket, pytest.raises(ConnectionError):
        client.ask()
    with pytest.raises(ConnectionRefusedError):
        EchoClient(link)
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name == "flip27-faulty-network"]
