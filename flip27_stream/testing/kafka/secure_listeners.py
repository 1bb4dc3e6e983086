"""Listeners of the test broker that need a password, encrypt, or both."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Literal, get_args

from flip27_stream.testing.faulty_network.link import Through
from flip27_stream.testing.free_ports import free_port
from flip27_stream.testing.kafka.key_pair import KeyPair

SecureListener = Literal["SASL_PLAINTEXT", "SSL", "SASL_SSL", "MUTUAL_TLS"]
"""Security protocols by their names.

``MUTUAL_TLS`` is ``SSL`` for clients with a certificate that the broker trusts.
"""

_MODULES = "org.apache.kafka.common.security"


class SecureListeners:
    """The addresses of secure listeners, with the users, passwords and keys that clients need.

    Attributes:
        user: The user for SASL with PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
        password: The password of that user. It is random, so that tests can check where it appears.
        broker_keys: The broker's keys. Clients need its trust stores.
        client_keys: The client's keys. Clients of ``MUTUAL_TLS`` need its key stores.
    """

    def __init__(self, names: Collection[SecureListener], directory: Path, through: Through | None) -> None:
        unknown = set(names).difference(get_args(SecureListener))
        if unknown:
            raise ValueError(f"unknown listener {sorted(unknown)}; there are {get_args(SecureListener)}")
        self.user, self.password = "alice", secrets.token_hex(16)
        store_password = secrets.token_hex(16)
        self.broker_keys = KeyPair(directory, "broker", store_password)
        self.client_keys = KeyPair(directory, "client", store_password)
        self._ports: dict[str, int] = {name: free_port() for name in names}
        addresses = {name: f"127.0.0.1:{port}" for name, port in self._ports.items()}
        self._addresses = (
            {name: through(name, address).address for name, address in addresses.items()}
            if through is not None
            else addresses
        )

    @property
    def ports(self) -> dict[str, int]:
        """The port of each listener."""
        return self._ports

    @property
    def advertised(self) -> dict[str, str]:
        """The advertised ``host:port`` of each listener."""
        return self._addresses

    def bootstrap_servers(self, listener: SecureListener) -> str:
        """Returns the address of a listener for clients, as ``host:port``."""
        return self._addresses[listener]

    @property
    def scram_users(self) -> list[str]:
        """The arguments of ``--add-scram`` of Kafka's storage tool."""
        user = f"[name={self.user},password={self.password},iterations=4096]"
        return [f"SCRAM-SHA-{bits}={user}" for bits in (256, 512)] if self._with_sasl else []

    def properties(self) -> dict[str, str]:
        """Returns the properties that the listeners add to the broker's configuration, empty without listeners."""
        if not self._ports:
            return {}
        found: dict[str, str] = {}
        if self._with_sasl:
            found["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
        for name in self._with_sasl:
            found |= self._sasl(f"listener.name.{name.lower()}")
        if self._ports.keys() - {"SASL_PLAINTEXT"}:
            found["ssl.keystore.type"] = "PKCS12"
            found["ssl.keystore.location"] = str(self.broker_keys.key_store("PKCS12"))
            found["ssl.keystore.password"] = self.broker_keys.password
        if "MUTUAL_TLS" in self._ports:
            found["listener.name.mutual_tls.ssl.client.auth"] = "required"
            found["ssl.truststore.type"] = "PEM"
            found["ssl.truststore.location"] = str(self.client_keys.trust_store("PEM"))
        return found

    @property
    def _with_sasl(self) -> list[str]:
        return [name for name in self._ports if name.startswith("SASL_")]

    def _sasl(self, listener: str) -> dict[str, str]:
        scram = f"{_MODULES}.scram.ScramLoginModule required;"
        return {
            f"{listener}.plain.sasl.jaas.config": (
                f'{_MODULES}.plain.PlainLoginModule required user_{self.user}="{self.password}";'
            ),
            f"{listener}.scram-sha-256.sasl.jaas.config": scram,
            f"{listener}.scram-sha-512.sasl.jaas.config": scram,
        }
