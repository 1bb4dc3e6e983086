"""A real Kerberos server for tests: Apache Kerby, started by Hadoop's MiniKdc on a free loopback port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flip27_stream.testing import jars, wait_until
from flip27_stream.testing.child import Child
from flip27_stream.testing.free_ports import free_port
from flip27_stream.testing.java import java

REALM = "EXAMPLE.COM"
_JARS = jars.JarSet("kerberos-server", ("org.apache.hadoop:hadoop-minikdc:3.4.1",))
_SETTINGS = {
    "org.name": "EXAMPLE",
    "org.domain": "COM",
    "kdc.bind.address": "127.0.0.1",
    "instance": "DefaultKrbServer",
    "max.ticket.lifetime": "86400000",
    "max.renewable.lifetime": "604800000",
    "transport": "TCP",
    "debug": "false",
}


@dataclass(frozen=True)
class Kdc:
    """A running Kerberos server.

    Attributes:
        keytab: The file with the keys of all principals.
        config: The configuration of Kerberos clients (``krb5.conf``).
        child: The process of the server.
    """

    keytab: Path
    config: Path
    child: Child


def krb5_conf(port: int) -> str:
    """Returns a configuration in which the server listens on a port. Host names are used as they are."""
    return f"""[libdefaults]
default_realm = {REALM}
udp_preference_limit = 1
rdns = false
dns_canonicalize_hostname = false
dns_lookup_kdc = false
dns_lookup_realm = false
[realms]
{REALM} = {{
  kdc = 127.0.0.1:{port}
}}
"""


@contextmanager
def kerberos_server(folder: Path, principals: Sequence[str]) -> Iterator[Kdc]:
    """Starts a server that knows the principals, with random keys. It ends with the block."""
    port, keytab, config = free_port(), folder / "keytab", folder / "krb5.conf"
    folder.mkdir(parents=True)
    settings = folder / "server.properties"
    lines = {**_SETTINGS, "kdc.port": str(port), "kdc.tcp.port": str(port)}
    settings.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    (folder / "work").mkdir()
    config.write_text(krb5_conf(port))
    classpath = ":".join(str(jar) for jar in jars.fetch(_JARS))
    command = [java(), "-Xmx128m", "-Djava.net.preferIPv4Stack=true", "-cp", classpath]
    command += [
        "org.apache.hadoop.minikdc.MiniKdc",
        str(folder / "work"),
        str(settings),
        str(keytab),
        *principals,
    ]
    child = Child(command, log=folder / "log", scratch=folder / "work")

    def is_ready() -> bool:
        assert child.running, child.tail()
        return "created keytab" in child.log.read_text(errors="replace")

    try:
        wait_until(is_ready, "the Kerberos server", 60)
        yield Kdc(keytab, config, child)
    finally:
        child.stop(10)
