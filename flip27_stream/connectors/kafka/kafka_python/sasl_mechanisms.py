"""The SASL mechanisms of kafka-python: those with user name and password, and that of Amazon MSK."""

from __future__ import annotations

from typing import Any

from kafka.net.sasl.msk import AwsMskIamClient
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram


def password_exchange(mechanism: str, username: str, password: str) -> Any:
    """Returns a new authentication with PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.

    Args:
        mechanism: The name of the mechanism.
        username: The name of the user. For SCRAM, commas and equals signs in it are escaped (RFC 5802).
        password: The password.
    """
    if mechanism == "PLAIN":
        return SaslMechanismPlain(sasl_plain_username=username, sasl_plain_password=password)
    return SaslMechanismScram(
        sasl_mechanism=mechanism,
        sasl_plain_username=username.replace("=", "=3D").replace(",", "=2C"),
        sasl_plain_password=password,
    )


class MskExchange:
    """One authentication at Amazon MSK: a signed request, to which the broker answers with a message that is not empty.

    Args:
        client: The signer of kafka-python.
    """

    def __init__(self, client: AwsMskIamClient) -> None:
        self._client = client
        self._is_done = self._is_authenticated = False

    def auth_bytes(self) -> bytes:
        """Returns the signed request, as JSON."""
        return bytes(self._client.first_message())

    def receive(self, auth_bytes: bytes) -> None:
        """Handles the answer of the broker."""
        self._is_done, self._is_authenticated = True, bool(auth_bytes)

    def is_done(self) -> bool:
        return self._is_done

    def is_authenticated(self) -> bool:
        return self._is_authenticated


def msk_exchange(host: str, region: str, access_key: str, secret_key: str, token: str | None) -> MskExchange:
    """Returns a new authentication with AWS_MSK_IAM.

    Args:
        host: The name of the broker.
        region: The AWS region of the broker.
        access_key: The id of the AWS access key.
        secret_key: The secret of the access key.
        token: The session token of temporary credentials; ``None`` for permanent ones.
    """
    return MskExchange(AwsMskIamClient(host, access_key, secret_key, region, token))
