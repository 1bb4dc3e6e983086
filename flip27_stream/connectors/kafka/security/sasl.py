"""Authentication by SASL over one connection, in the versions that the broker speaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from flip27_stream.connectors.kafka.client.api_versions import Ask
from flip27_stream.errors import AuthenticationError

_FAILED = kafka_errors.SaslAuthenticationFailedError.errno
REFUSALS = (
    kafka_errors.UnsupportedSaslMechanismError.errno,
    kafka_errors.IllegalSaslStateError.errno,
    _FAILED,
)
"""The errors by which a broker refuses; others mean that it could not check now (Java closes and tries again)."""


class SaslExchange:
    """The steps of SASL with one broker (KIP-43, KIP-152).

    Args:
        broker: its address, for messages.
        config: arguments of kafka-python's mechanisms. They hold the password.
        versions: that the broker speaks.
        ask: sends a request.
        ask_raw: sends a token without a request around it, and returns the broker's token: brokers before 1.0 want
            that, which know of SaslHandshake version 0 only.
    """

    def __init__(
        self,
        broker: str,
        config: dict[str, Any],
        versions: BrokerVersionData,
        ask: Ask,
        ask_raw: Callable[[bytes], bytes],
    ) -> None:
        self._broker = broker
        self._config = config
        self._versions = versions
        self._ask = ask
        self._ask_raw = ask_raw
        self._session_ms = 0

    def run(self, host: str) -> int:
        """Authenticate; returns the life time of the session in ms (KIP-368), 0 for no end.

        Raises:
            AuthenticationError: the broker refused, or did not prove who it is.
            OSError: it does not answer, or hung up.
        """
        name = self._config["sasl_mechanism"]
        version = self._version_of(SaslHandshakeRequest)
        answer = self._ask(SaslHandshakeRequest(mechanism=name), version)
        self._check(answer.error_code, f"it has {', '.join(answer.mechanisms)}")
        exchange = get_sasl_mechanism(name)(host=host, **self._config)
        while not exchange.is_done():
            token = self._token(exchange.auth_bytes(), framed=version > 0)
            try:
                exchange.receive(token)
            except (ValueError, LookupError):  # what SCRAM's last word must be
                self._check(_FAILED, "the broker did not prove who it is")
        if not exchange.is_authenticated():
            self._check(_FAILED, "the broker did not prove who it is")
        return self._session_ms

    def _token(self, token: bytes, *, framed: bool) -> bytes:
        """The broker's answer to a token."""
        if not framed:
            return self._ask_raw(token)
        version = self._version_of(SaslAuthenticateRequest)
        answer = self._ask(SaslAuthenticateRequest(token), version)
        self._check(answer.error_code, answer.error_message)
        self._session_ms = answer.session_lifetime_ms or 0
        return bytes(answer.auth_bytes)

    def _version_of(self, request: Any) -> int:
        try:
            return int(self._versions.api_version(request))
        except kafka_errors.IncompatibleBrokerVersion as error:
            raise AuthenticationError(
                f"Broker {self._broker} takes no SASL here: {error}. Check option 'kafka.security.protocol'."
            ) from error

    def _check(self, error: int, why: str | None) -> None:
        kind = kafka_errors.for_code(error).__name__
        if error and error not in REFUSALS:
            raise ConnectionAbortedError(f"the broker could not check the credentials: {kind}, {why}")
        if error:
            raise AuthenticationError(
                f"Broker {self._broker} refused SASL {self._config['sasl_mechanism']}: {kind}, {why}. "
                "Check options 'kafka.sasl.mechanism' and 'kafka.sasl.jaas.config'."
            )
