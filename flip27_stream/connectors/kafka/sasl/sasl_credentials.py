"""The interfaces of SASL mechanisms, credentials and their exchanges, and the credentials of user name and password.

Credentials are sent to the executors, so they are small, hashable and picklable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol


class SaslExchange(Protocol):
    """One authentication. Messages of this client and answers of the broker alternate."""

    def auth_bytes(self) -> bytes:
        """Returns the next message of this client."""
        ...

    def receive(self, auth_bytes: bytes) -> object:
        """Handles the answer of the broker.

        Raises:
            ValueError, LookupError: The answer does not prove that the broker knows the credentials.
        """
        ...

    def is_done(self) -> bool:
        """Returns whether there is no further message to send."""
        ...

    def is_authenticated(self) -> bool:
        """Returns whether the broker accepted the credentials, and proved its identity if the mechanism requires it."""
        ...


class SaslCredentials(Protocol):
    """The credentials of this client and their mechanism. Hashable and picklable."""

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        ...

    @property
    def credentials(self) -> str:
        """The kind of credentials, for messages."""
        ...

    @property
    def option(self) -> str:
        """The option with the credentials, for messages."""
        ...

    def exchange(self, host: str) -> SaslExchange:
        """Returns a new authentication at the broker that was reached by the name ``host``."""
        ...

    def refused(self, exchange: SaslExchange) -> bool:
        """Records that a broker refused the credentials of ``exchange``. Returns whether a new one may succeed."""
        ...


@dataclass(frozen=True)
class PasswordCredentials:
    """A user name and a password, for ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    credentials: ClassVar[str] = "user name and password"
    """The kind of credentials, for messages."""
    option: ClassVar[str] = "kafka.sasl.jaas.config"
    """The option with the credentials, for messages."""

    def exchange(self, host: str) -> SaslExchange:
        """Returns a new authentication at the broker that was reached by the name ``host``."""
        # Imported on use, because only processes that connect need kafka-python.
        from flip27_stream.connectors.kafka.kafka_python.sasl_mechanisms import password_exchange

        exchange: SaslExchange = password_exchange(self.mechanism, self.username, self.password)
        return exchange

    def refused(self, exchange: SaslExchange) -> bool:
        """Returns ``False``: a password does not change."""
        return False
