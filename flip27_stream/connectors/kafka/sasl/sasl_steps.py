"""The steps of SASL authentication, which all connections share: those of planning, of fetches and of diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka import errors as kafka_errors

from flip27_stream.connectors.kafka.kafka_python.api_versions import Ask, version_of
from flip27_stream.connectors.kafka.kafka_python.connections import SaslSteps
from flip27_stream.connectors.kafka.kafka_python.messages import (
    BrokerVersionData,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from flip27_stream.connectors.kafka.sasl.sasl_credentials import SaslCredentials
from flip27_stream.errors import AuthenticationError

_UNSUPPORTED_MECHANISM = kafka_errors.UnsupportedSaslMechanismError.errno
_ILLEGAL_STATE = kafka_errors.IllegalSaslStateError.errno
_FAILED = kafka_errors.SaslAuthenticationFailedError.errno


class CredentialsUncheckedError(ConnectionAbortedError):
    """The error if a broker could not check the credentials now. As in Java's client, a new connection tries again."""


def sasl_steps(broker: str, host: str, sasl: SaslCredentials, versions: BrokerVersionData) -> SaslSteps:
    """Yields the steps of SASL with one broker (KIP-43, KIP-152).

    Brokers before 1.0 only know SaslHandshake version 0. They expect tokens without requests around them.

    Args:
        broker: The address of the broker, for messages.
        host: The name by which the broker was reached.
        sasl: The credentials.
        versions: The versions of requests that the broker supports.

    Returns:
        A generator that yields each request with its version, or a raw token, and is sent the broker's answer. It
        returns the life time of the session in ms (KIP-368), 0 for an unlimited one.

    Raises:
        AuthenticationError: The broker refused the credentials, or did not prove that it knows them.
        CredentialsUncheckedError: The broker could not check the credentials.
    """
    handshake = SaslHandshakeRequest(mechanism=sasl.mechanism)
    framed = _version_of(handshake, broker, versions) > 0
    answer = yield handshake, int(framed)
    offered = ", ".join(answer.mechanisms or ())
    _check(answer.error_code, f"it offers {offered}", broker, sasl)
    exchange = sasl.exchange(host)
    session_ms = 0
    while not exchange.is_done():
        token = exchange.auth_bytes()
        if framed:
            request = SaslAuthenticateRequest(token)
            answer = yield request, _version_of(request, broker, versions)
            if answer.error_code == _FAILED and sasl.refused(exchange):
                raise CredentialsUncheckedError(
                    f"the broker refused the {sasl.credentials} ({answer.error_message}), so the next connection "
                    "requests new credentials"
                )
            _check(answer.error_code, answer.error_message, broker, sasl)
            session_ms = answer.session_lifetime_ms or 0
            received = bytes(answer.auth_bytes)
        else:
            received = yield token
        try:
            exchange.receive(received)
        except (ValueError, LookupError):  # The last message of SCRAM is wrong.
            raise _unproven(broker, sasl) from None
    if not exchange.is_authenticated():
        raise _unproven(broker, sasl)
    return session_ms


def run_sasl(steps: SaslSteps, ask: Ask, ask_raw: Callable[[bytes], bytes]) -> int:
    """Runs the steps over a blocking connection.

    Args:
        steps: The steps of :func:`sasl_steps`.
        ask: Sends a request in a version, and returns its response.
        ask_raw: Sends a token without a request around it, and returns the token of the broker.

    Returns:
        The life time of the session in ms; 0 for an unlimited one.
    """
    step = next(steps)
    while True:
        answer = ask_raw(step) if isinstance(step, bytes) else ask(*step)
        try:
            step = steps.send(answer)
        except StopIteration as end:
            return int(end.value)


def _version_of(request: Any, broker: str, versions: BrokerVersionData) -> int:
    try:
        return version_of(request, versions)
    except kafka_errors.IncompatibleBrokerVersion as error:
        raise AuthenticationError(
            f"The broker at {broker} supports no SASL at this port: {error}. Check option 'kafka.security.protocol'."
        ) from error


def _check(error: int, why: str | None, broker: str, sasl: SaslCredentials) -> None:
    if error == _UNSUPPORTED_MECHANISM:
        raise AuthenticationError(
            f"The broker at {broker} does not offer SASL/{sasl.mechanism}; {why}. Check option 'kafka.sasl.mechanism'."
        )
    if error == _ILLEGAL_STATE:
        raise AuthenticationError(
            f"The broker at {broker} supports no SASL at this port. Check option 'kafka.security.protocol'."
        )
    if error == _FAILED:
        raise AuthenticationError(
            f"The broker at {broker} refused the {sasl.credentials} by SASL/{sasl.mechanism}: {why}. "
            f"Check option '{sasl.option}'."
        )
    if error:
        kind = kafka_errors.for_code(error).__name__
        raise CredentialsUncheckedError(f"the broker could not check the credentials: {kind}, {why}")


def _unproven(broker: str, sasl: SaslCredentials) -> AuthenticationError:
    return AuthenticationError(
        f"The broker at {broker} did not prove its identity by SASL/{sasl.mechanism}, so it may "
        "be another server. Check option 'kafka.bootstrap.servers'."
    )
