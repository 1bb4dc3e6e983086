"""Checks whether a server's certificate is trusted, because pulsar-client only reports that it could not connect."""

from __future__ import annotations

import socket
import ssl

from flip27_stream.connectors.pulsar.options.connection_options import PulsarConnectionOptions
from flip27_stream.errors import AuthenticationError, OptionError

_TLS = "pulsar+ssl://"
_PORT = 6651


def check_trusted_certificates(options: PulsarConnectionOptions) -> None:
    """Checks the file of trusted certificates, of which pulsar-client only reports that authentication failed.

    Raises:
        OptionError: The brokers are reached with TLS, and the file cannot be read or has no certificate.
    """
    if options.service_url.startswith(_TLS) and not options.tls_allow_insecure:
        _add_trusted(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), options)


def why_untrusted(options: PulsarConnectionOptions) -> str | None:
    """Returns the reason why the certificate of the first broker in the service URL is not trusted.

    The result is ``None`` if it is trusted, if any certificate is accepted, if the connection has no TLS, or if the
    broker does not answer.
    """
    if not options.service_url.startswith(_TLS) or options.tls_allow_insecure:
        return None
    first = options.service_url.removeprefix(_TLS).split(",")[0].rstrip("/")
    host, port = first.rsplit(":", 1) if ":" in first else (first, _PORT)
    name, timeout_s = host.strip("[]"), options.connection_timeout_ms / 1000
    try:
        context = ssl.create_default_context(cafile=options.tls_trust_certs)
        context.check_hostname = options.tls_validate_hostname
        with (
            socket.create_connection((name, int(port)), timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=name),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except (OSError, ValueError):
        return None


def not_trusted(what: str, place: str, why: str) -> AuthenticationError:
    """Returns the error about a certificate of ``place`` that is not trusted."""
    return AuthenticationError(
        f"{what}: the certificate of {place} is not trusted: {why}. Give a file with the certificate of its authority, "
        "in PEM, in option 'pulsar.client.tlsTrustCertsFilePath'."
    )


def admin_context(options: PulsarConnectionOptions) -> ssl.SSLContext:
    """Returns the TLS of the admin API. Authorities of the system are trusted as well, and host names are checked.

    Raises:
        OptionError: The file of certificates cannot be read, or has none.
    """
    context = ssl.create_default_context()
    _add_trusted(context, options)
    if options.tls_allow_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _add_trusted(context: ssl.SSLContext, options: PulsarConnectionOptions) -> None:
    if options.tls_trust_certs is None:
        return
    try:
        context.load_verify_locations(options.tls_trust_certs)
    except OSError as error:
        raise OptionError(
            f"File {options.tls_trust_certs!r} of option 'pulsar.client.tlsTrustCertsFilePath' cannot be read as "
            f"certificates in PEM: {error}. It must be on the driver and on the executors."
        ) from error
