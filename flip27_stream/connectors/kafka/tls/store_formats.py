"""Reads certificates and keys in the formats of Java's client. All errors are ``ValueError`` or ``TypeError``."""

from __future__ import annotations

import re
import textwrap
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from flip27_stream.connectors.kafka.tls.jks_store import JKS_MAGIC, read_jks
from flip27_stream.extras import check_installed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_WRITTEN_BREAK = re.compile(rb"\\[rn]")
_ENCRYPTED = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"


class KeyAndChain(NamedTuple):
    """A private key and its certificates.

    Attributes:
        key: The private key.
        chain: The certificates in DER; the first one is that of the key.
    """

    key: PrivateKeyTypes
    chain: Sequence[bytes]

    def pem(self, password: str) -> str:
        """Returns the encrypted key and the certificates as one PEM text."""
        from cryptography.hazmat.primitives.serialization import (
            BestAvailableEncryption,
            Encoding,
            PrivateFormat,
        )

        encryption = BestAvailableEncryption(password.encode())
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        return key.decode() + join_pem(self.chain)


class StoreFormat(ABC):
    """The base class of readers of one format of trust stores and key stores."""

    @staticmethod
    @abstractmethod
    def certificates(data: bytes, password: str | None) -> list[bytes]:
        """Returns the certificates of a trust store, in DER."""

    @staticmethod
    @abstractmethod
    def keys(data: bytes, password: str | None, key_password: str | None) -> list[KeyAndChain]:
        """Returns the keys of a key store, with their certificates."""


def format_of(data: bytes, *, pem: bool = False) -> type[StoreFormat]:
    """Returns the format of a store. JKS and PKCS12 are detected by the bytes and not by the type, as in Java.

    Args:
        data: The bytes of the store.
        pem: Whether the type is PEM.

    Raises:
        ValueError: The bytes are PEM text and ``pem`` is not set.
    """
    if pem:
        return Pem
    if b"-----BEGIN " in data:
        raise ValueError("the file is PEM text")
    return Jks if data.startswith(JKS_MAGIC) else Pkcs12


class Pem(StoreFormat):
    """PEM text: blocks in any order, with other text between them."""

    @staticmethod
    def certificates(data: bytes, password: str | None) -> list[bytes]:
        return [der for label, der in _blocks(data) if label == "CERTIFICATE"]

    @staticmethod
    def keys(data: bytes, password: str | None, key_password: str | None) -> list[KeyAndChain]:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        chain = Pem.certificates(data, None)
        found = []
        for label, der in _blocks(data):
            if label.endswith("PRIVATE KEY"):
                block = _pem(label, der).encode()
                secret = key_password.encode() if key_password and block.startswith(_ENCRYPTED) else None
                found.append(KeyAndChain(load_pem_private_key(block, secret), chain))
        if found and not chain:
            raise ValueError("it holds no certificate")
        return found


class Pkcs12(StoreFormat):
    """PKCS12, the default of Java's keytool. It has one password for all entries."""

    @staticmethod
    def certificates(data: bytes, password: str | None) -> list[bytes]:
        return _load_pkcs12(data, password)[1]

    @staticmethod
    def keys(data: bytes, password: str | None, key_password: str | None) -> list[KeyAndChain]:
        if key_password not in (None, password):
            raise ValueError(
                "PKCS12 has one password for all entries, and kafka.ssl.key.password differs from it"
            )
        key, certificates = _load_pkcs12(data, password)
        return [] if key is None or not certificates else [KeyAndChain(key, certificates)]


def _load_pkcs12(data: bytes, password: str | None) -> tuple[PrivateKeyTypes | None, list[bytes]]:
    check_installed("cryptography", "keystores", "A key store or trust store of type PKCS12")
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    store = load_pkcs12(data, None if password is None else password.encode())
    own = [] if store.cert is None else [store.cert]
    return store.key, [c.certificate.public_bytes(Encoding.DER) for c in (*own, *store.additional_certs)]


class Jks(StoreFormat):
    """JKS, the older format of Java."""

    @staticmethod
    def certificates(data: bytes, password: str | None) -> list[bytes]:
        """Returns the trusted certificates and those of private keys, because Java's trust manager trusts both."""
        store = read_jks(data, password)
        return [*store.trusted, *(key.chain[0] for key in store.keys if key.chain)]

    @staticmethod
    def keys(data: bytes, password: str | None, key_password: str | None) -> list[KeyAndChain]:
        from cryptography.hazmat.primitives.serialization import load_der_private_key

        secret = key_password or password or ""
        store = read_jks(data, password)
        return [KeyAndChain(load_der_private_key(key.pkcs8(secret), None), key.chain) for key in store.keys]


def _blocks(data: bytes) -> list[tuple[str, bytes]]:
    """Returns the label and the DER of each PEM block. Line breaks may be escaped, as in JSON."""
    data = _WRITTEN_BREAK.sub(b"\n", data)
    return [(m[1].decode(), b64decode(b"".join(m[2].split()))) for m in _BLOCK.finditer(data)]


def _pem(label: str, der: bytes) -> str:
    body = "\n".join(textwrap.wrap(b64encode(der).decode(), 64))
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n"


def join_pem(certificates: Sequence[bytes]) -> str:
    """Returns certificates in DER as one PEM text."""
    return "".join(_pem("CERTIFICATE", der) for der in certificates)
