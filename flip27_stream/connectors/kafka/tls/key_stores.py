"""The trust stores and key stores of Java's client: their options, and functions that load them into an SSL context."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from ssl import VERIFY_X509_PARTIAL_CHAIN, SSLContext, SSLError
from tempfile import TemporaryDirectory

from flip27_stream.connectors.kafka.tls.store_formats import (
    KeyAndChain,
    StoreFormat,
    format_of,
    join_pem,
)
from flip27_stream.errors import OptionError
from flip27_stream.extras import check_installed

_KEY_STORE = "kafka.ssl.keystore.location"


class StoreType(Enum):
    """The formats of stores, by their names in Java's client."""

    JKS = "JKS"
    PKCS12 = "PKCS12"
    PEM = "PEM"


@dataclass(frozen=True)
class TrustStore:
    """The certificates that this client trusts, of brokers or of authorities, in a file or as PEM text.

    Attributes:
        type: The format.
        location: The path of the file; ``None`` for PEM text.
        password: The password that checks a JKS store or decrypts a PKCS12 store; ``None`` for PEM.
        certificates: The PEM text (``ssl.truststore.certificates``); ``None`` for a file.
        prefix: The beginning of the names of its options, for messages.
    """

    type: StoreType
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)
    prefix: str = "kafka."

    def load_into(self, context: SSLContext) -> None:
        """Adds these certificates, of authorities or of single brokers, to the trusted ones of an SSL context.

        Raises:
            OptionError: The store cannot be read or opened, or has no certificate.
        """
        option, where = _place("truststore", self.location, "ssl.truststore.certificates", self.prefix)
        data = _read(self.location, self.certificates, option)
        try:
            certificates = _format(self.type, data).certificates(data, self.password)
            if not certificates:
                raise OptionError(f"{where} holds no certificate (option '{option}').")
            context.load_verify_locations(cadata=join_pem(certificates))
        except (ValueError, SSLError) as error:
            password = f"{self.prefix}ssl.truststore.password"
            raise _unopened(where, option, self.type, password, error) from None
        context.verify_flags |= VERIFY_X509_PARTIAL_CHAIN


@dataclass(frozen=True)
class KeyStore:
    """The private key and the certificates of this client, in a file or as PEM text.

    Attributes:
        type: The format.
        location: The path of the file; ``None`` for PEM text.
        password: The password that decrypts the store; ``None`` for PEM.
        key: The PEM text of the key (``ssl.keystore.key``); ``None`` for a file.
        certificate_chain: The PEM text of the certificates (``ssl.keystore.certificate.chain``); ``None`` for a file.
        key_password: The password that decrypts the key in the store or in the PEM text.
    """

    type: StoreType
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    certificate_chain: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    def load_into(self, context: SSLContext) -> None:
        """Adds this key and its certificates to an SSL context.

        Raises:
            OptionError: The store cannot be read or opened, or does not have exactly one key with its certificate.
        """
        check_installed("cryptography", "keystores", f"Option '{_KEY_STORE}'")
        option, where = _place("keystore", self.location, "ssl.keystore.key")
        text = None if self.key is None else f"{self.key}\n{self.certificate_chain}"
        data = _read(self.location, text, option)
        password = "kafka.ssl.key.password" if self.type is StoreType.PEM else "kafka.ssl.keystore.password"
        try:
            found = _format(self.type, data).keys(data, self.password, self.key_password)
            if len(found) != 1:
                raise OptionError(f"{where} must hold one private key, not {len(found)} (option '{option}').")
            _present(found[0], context)
        except (ValueError, TypeError, SSLError) as error:
            raise _unopened(where, option, self.type, password, error) from None


def _present(pair: KeyAndChain, context: SSLContext) -> None:
    """Loads a key into an SSL context. OpenSSL only reads keys from files, so a temporary encrypted file is written."""
    password = secrets.token_hex(16)
    with TemporaryDirectory() as directory:
        path = Path(directory, "client.pem")
        path.touch(mode=0o600)
        path.write_text(pair.pem(password))
        context.load_cert_chain(path, password=password)


def _format(kind: StoreType, data: bytes) -> type[StoreFormat]:
    return format_of(data) if kind is not StoreType.PEM else format_of(data, pem=True)


def _place(store: str, location: str | None, inline: str, prefix: str = "kafka.") -> tuple[str, str]:
    """Returns the name of the option with the store's location, and a phrase that names the store."""
    if location is None:
        return f"{prefix}{inline}", f"The PEM text of option '{prefix}{inline}'"
    return f"{prefix}ssl.{store}.location", f"The {store} at {location}"


def _read(location: str | None, text: str | None, option: str) -> bytes:
    if location is None:
        return (text or "").encode()
    try:
        return Path(location).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OptionError.of(
            option,
            location,
            f"It cannot be read ({reason}). The file must exist on the driver and on every executor.",
        ) from None


def _unopened(where: str, option: str, kind: StoreType, password: str, error: Exception) -> OptionError:
    if isinstance(error, OptionError):
        return error
    store = "truststore" if "truststore" in option else "keystore"
    return OptionError(
        f"{where} cannot be opened as {kind.value}: {error}. Check options '{option}', '{password}' and "
        f"'{option.partition('ssl.')[0]}ssl.{store}.type'."
    )
