"""kafka-python's SASL mechanisms with user name and password."""

from __future__ import annotations

from typing import Any

from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram


def password_exchange(mechanism: str, username: str, password: str) -> Any:
    """A new exchange of PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.

    Args:
        mechanism: one of the three.
        username: the name of the user; SCRAM separates by commas and equals signs, which are escaped (RFC 5802).
        password: the password.
    """
    if mechanism == "PLAIN":
        return SaslMechanismPlain(sasl_plain_username=username, sasl_plain_password=password)
    return SaslMechanismScram(
        sasl_mechanism=mechanism,
        sasl_plain_username=username.replace("=", "=3D").replace(",", "=2C"),
        sasl_plain_password=password,
    )
