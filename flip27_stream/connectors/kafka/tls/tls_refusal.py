"""The errors of TLS handshakes that one side refused."""

from __future__ import annotations

import ssl

from flip27_stream.errors import AuthenticationError


def tls_refusal(server: str, error: BaseException) -> AuthenticationError | None:
    """Returns the error of a TLS handshake that one side refused; ``None`` if it failed in another way."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(server, error)
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if "ALERT" not in reason and reason != "UNSUPPORTED_PROTOCOL":
        return None
    return AuthenticationError(
        f"The broker at {server} ended the TLS handshake: {reason}. Check options 'kafka.ssl.enabled.protocols' and "
        "'kafka.ssl.protocol', and, if the broker requires a certificate of this client, 'kafka.ssl.keystore.location'."
    )


def _untrusted(server: str, error: ssl.SSLCertVerificationError) -> AuthenticationError:
    return AuthenticationError(
        f"The certificate of the broker at {server} is not trusted: {error.verify_message}. Check options "
        "'kafka.ssl.truststore.location', 'kafka.ssl.truststore.type' and "
        "'kafka.ssl.endpoint.identification.algorithm'."
    )
