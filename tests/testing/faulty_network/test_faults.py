"""Each fault does to a connection what it is named for, and no more.

No test here starts a JVM.
"""

from __future__ import annotations

import datetime
import errno
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flip27_stream.testing import (
    BlackHole,
    CutAfter,
    Delay,
    Fault,
    FaultyNetwork,
    HalfOpen,
    HangInTls,
    Link,
    Refuse,
    Silence,
    Throttle,
    Unreachable,
    wait_until,
)
from tests.testing.support.echo import LONG_S, SOON_S, EchoClient, EchoServer

Connect = Callable[[], EchoClient]


def test_a_link_without_faults_delivers_all_bytes(link: Link, connect: Connect, server: EchoServer) -> None:
    client = connect()
    assert client.ask(1 << 20) == 1 << 20
    client.socket.shutdown(socket.SHUT_WR)
    assert client.receive(1) == 0
    wait_until(lambda: server.ends == [""], "the end of file to arrive")
    wait_until(lambda: link.connections == 0, "the link to forget it")
    assert link.accepted == 1


def test_a_server_that_is_not_there_resets(link: Link, connect: Connect, server: EchoServer) -> None:
    server.close()
    with pytest.raises(ConnectionResetError):
        connect().receive(1)


@pytest.mark.parametrize("fault", [Refuse(), Unreachable(), Silence(), HangInTls()], ids=str)
def test_faults_of_new_connections_do_not_change_open_ones(
    link: Link, connect: Connect, fault: Fault
) -> None:
    standing = connect()
    assert standing.ask() == 5
    with link.apply(fault):
        assert standing.ask() == 5
    assert standing.ask() == 5
    assert connect().ask() == 5


def test_refuse_refuses_connections(link: Link, connect: Connect) -> None:
    with link.apply(Refuse()):
        for _ in range(3):
            with pytest.raises(ConnectionRefusedError):
                connect()
        with link.apply(Silence()), pytest.raises(ConnectionRefusedError):
            connect()


def test_unreachable_leaves_connections_unmade(link: Link) -> None:
    """The connection is not refused, but not made either.

    A client that waits long enough is connected when the fault ends.
    """
    with socket.socket() as client:
        client.setblocking(False)
        with link.apply(Unreachable()):
            assert client.connect_ex((link.host, link.port)) == errno.EINPROGRESS
            client.settimeout(SOON_S)
            with pytest.raises(TimeoutError):
                client.send(b"x")
        client.settimeout(LONG_S)
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    assert link.accepted == 1


def test_silence_accepts_and_sends_nothing(link: Link, connect: Connect, server: EchoServer) -> None:
    with link.apply(Silence()):
        client = connect()
        assert not client.is_answered()
        assert server.got == 0
    with pytest.raises(ConnectionError):
        client.ask()


def test_delay_holds_back_what_is_sent_to_the_client(link: Link, connect: Connect) -> None:
    """A delay holds back what is sent to the client, and releases what waits when it ends."""
    client = connect()
    client.ask()
    with link.apply(Delay(0.15)):
        began = time.monotonic()
        assert client.ask(1 << 20) == 1 << 20
        assert time.monotonic() - began >= 0.15
    with link.apply(Delay(3600)):
        client.socket.sendall(b"x")
    assert client.receive(1) == 1


def test_a_seed_repeats_the_jitter_of_a_delay() -> None:
    import random

    delay = Delay(1, jitter_s=2, seed=7)
    drawn = [[delay.delay_s("to_client", chance) for _ in range(9)] for chance in map(random.Random, (7, 7))]
    assert drawn[0] == drawn[1]
    assert 1 <= min(drawn[0]) < max(drawn[0]) <= 3
    assert delay.delay_s("to_server", random.Random(7)) == 0


def test_throttle_limits_bytes_per_second(link: Link, connect: Connect) -> None:
    client = connect()
    with link.apply(Throttle(50_000)):
        began = time.monotonic()
        assert client.ask(10_000) == 10_000
        assert time.monotonic() - began > 0.15
    with link.apply(Throttle(100)):
        client.socket.sendall(b"x" * 500_000)
    assert client.receive(500_000) == 500_000, "it does not wait for an hour"


@pytest.mark.parametrize("direction", ["to_server", "to_client", "both"])
def test_a_black_hole_delivers_when_it_ends(
    link: Link, connect: Connect, server: EchoServer, direction: str
) -> None:
    client = connect()
    client.ask()
    before = server.got
    with link.apply(BlackHole(direction)):  # type: ignore[arg-type]
        assert not client.is_answered()
        client.socket.shutdown(socket.SHUT_WR)
        if direction == "to_client":
            wait_until(lambda: server.ends == [""], "the server's end")
        else:
            assert (server.got, server.ends) == (before, [])
    assert client.receive(6) == 5


def test_a_black_hole_resets_when_it_ends(link: Link, connect: Connect, server: EchoServer) -> None:
    client = connect()
    client.ask()
    with link.apply(BlackHole(on_heal="reset")):
        assert not client.is_answered()
    with pytest.raises(ConnectionResetError):
        client.receive(5)
    assert server.got == 5
    assert connect().ask() == 5


def test_a_black_hole_hides_the_end_of_the_server(link: Link, connect: Connect) -> None:
    client = connect()
    client.ask()
    with link.apply(BlackHole("to_client")):
        client.socket.shutdown(socket.SHUT_WR)  # so that the server ends, too
        client.socket.settimeout(SOON_S)
        with pytest.raises(TimeoutError):
            client.receive(1)
    assert client.receive(1) == 0


@pytest.mark.parametrize("count", [0, 1, 4, 70_000])
def test_a_cut_ends_a_connection_after_some_bytes(
    link: Link, connect: Connect, server: EchoServer, count: int
) -> None:
    """Exactly ``count`` bytes of the answer arrive; bytes from before the fault do not count.

    Only one connection is cut. The answer is held until the server has all of the request, since a connection that is
    closed with bytes of the request unread is reset, and a reset discards what has arrived.
    """
    client, other = connect(), connect()
    client.ask(100)
    held = link.apply(BlackHole("to_client"))
    client.socket.sendall(b"x" * 100_000)
    wait_until(lambda: server.got == 100_100, "the request to arrive")
    with link.apply(CutAfter(count, how="close")) as applied:
        held.heal()
        assert client.receive(100_000) == count
        assert applied.cuts == 1
        assert other.ask(100_000) == 100_000
    assert connect().ask() == 5


def test_a_cut_may_reset_all_connections(link: Link, connect: Connect) -> None:
    with link.apply(CutAfter(3, times=None)) as applied:
        for _ in range(3):
            client = connect()
            client.socket.sendall(b"12345")
            assert client.receive(3) == 3
            with pytest.raises(ConnectionResetError):
                client.receive(1)
        assert applied.cuts == 3


def test_the_client_does_not_see_a_connection_end_that_the_server_sees(
    link: Link, connect: Connect, server: EchoServer
) -> None:
    client = connect()
    client.ask()
    with link.apply(HalfOpen("server")):
        wait_until(lambda: server.ends == [""], "the server's end")
        assert not client.is_answered()
        assert connect().ask() == 5
        assert link.connections == 2
    with pytest.raises(ConnectionResetError):
        client.receive(1)
    wait_until(lambda: link.connections == 1, "the link to forget it")


def test_the_server_does_not_see_a_connection_end_that_the_client_sees(
    link: Link, connect: Connect, server: EchoServer
) -> None:
    client = connect()
    client.ask()
    with link.apply(HalfOpen("client")):
        assert client.receive(1) == 0
        assert server.ends == []
    wait_until(lambda: server.ends == ["ConnectionResetError"], "the server to be told")


def test_neither_side_sees_the_end_of_a_half_open_connection(
    link: Link, connect: Connect, server: EchoServer
) -> None:
    client = connect()
    client.ask()
    with link.apply(HalfOpen("neither")):
        assert not client.is_answered()
        assert (server.got, server.ends) == (5, [])
    wait_until(lambda: server.ends == ["ConnectionResetError"], "the server to be told")
    with pytest.raises(ConnectionResetError):
        client.receive(1)


def test_hang_in_tls_stops_a_handshake(network: FaultyNetwork, tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepting.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=certificate)
    server = EchoServer(lambda plain: accepting.wrap_socket(plain, server_side=True))
    try:
        link = network.link("tls", server.address)
        with handshake(link, trusting, LONG_S) as standing, link.apply(HangInTls()):
            standing.sendall(b"x")
            assert standing.recv(1) == b"x"
            with pytest.raises(TimeoutError), handshake(link, trusting, SOON_S):
                pass
        with handshake(link, trusting, LONG_S) as healed:
            healed.sendall(b"x")
            assert healed.recv(1) == b"x"
    finally:
        server.close()


@contextmanager
def handshake(link: Link, context: ssl.SSLContext, timeout_s: float) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection((link.host, link.port), timeout_s) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        yield wrapped


def self_signed(folder: Path) -> str:
    """Writes a private key and a certificate for localhost into one file, and returns its path."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.timezone.utc)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "both.pem").write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    return str(folder / "both.pem")
