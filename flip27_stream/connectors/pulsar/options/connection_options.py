"""The options of the connections to Pulsar."""

from __future__ import annotations

from dataclasses import dataclass, field

_ATTEMPTS = 3


@dataclass(frozen=True)
class PulsarConnectionOptions:
    """The checked options of the connections to Pulsar. ``repr`` does not show secrets.

    Attributes:
        service_url: The URL of the brokers (``pulsar://`` or ``pulsar+ssl://``).
        admin_url: The URL of the admin API; ``None`` if it is not used.
        auth_method: ``token``, ``tls``, ``oauth2`` or ``basic``; ``None`` without authentication.
        auth_params: The parameters of the method, in the form of the Java client.
        operation_timeout_ms: The time limit (ms) of all attempts of an operation.
        connection_timeout_ms: The time limit (ms) of an attempt to connect.
        io_threads: The number of threads of the client.
        concurrent_lookups: The greatest number of lookups at the same time.
        tls_trust_certs: The path of a file with trusted certificates, in PEM.
        tls_allow_insecure: Whether any certificate is accepted.
        tls_validate_hostname: Whether the host name in the certificate is checked.
        listener_name: The listener to connect to.
    """

    service_url: str
    admin_url: str | None = None
    auth_method: str | None = None
    auth_params: str = field(default="", repr=False)
    operation_timeout_ms: int = 30_000
    connection_timeout_ms: int = 10_000
    io_threads: int = 1
    concurrent_lookups: int = 50_000
    tls_trust_certs: str | None = None
    tls_allow_insecure: bool = False
    tls_validate_hostname: bool = False
    listener_name: str | None = None

    @property
    def attempt_s(self) -> float:
        """The time limit (s) of one attempt of an operation.

        pulsar-client can wait for ever for an answer that was lost when a topic was unloaded. The next attempt gets it.
        """
        return self.operation_timeout_ms / 1000 / _ATTEMPTS
