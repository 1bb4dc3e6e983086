"""Reads Java key stores in the format JKS, as ``sun.security.provider.JavaKeyStore`` writes them.

The library pyjks is not used, because it cannot be installed without a C compiler.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO

JKS_MAGIC = b"\xfe\xed\xfe\xed"
_KEY, _TRUSTED = 1, 2
_DIGEST_BYTES = 20
_CUT_SHORT = "it ends too early"


@dataclass(frozen=True)
class ProtectedKey:
    """An encrypted private key and its certificates.

    Attributes:
        protected: The encrypted key as it is in the store.
        chain: The certificates in DER; the first one is that of the key.
    """

    protected: bytes = field(repr=False)
    chain: Sequence[bytes]

    def pkcs8(self, password: str) -> bytes:
        """Returns the private key in PKCS #8, DER.

        Raises:
            ValueError: The password is wrong.
        """
        secret = password.encode("utf-16-be")
        salt, hidden, check = (
            self.protected[:_DIGEST_BYTES],
            self.protected[_DIGEST_BYTES:-_DIGEST_BYTES],
            self.protected[-_DIGEST_BYTES:],
        )
        stream, block = bytearray(), salt
        while len(stream) < len(hidden):
            block = hashlib.sha1(secret + block).digest()
            stream += block
        plain = bytes(a ^ b for a, b in zip(hidden, stream, strict=False))
        if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):
            raise ValueError("the password of the key (kafka.ssl.key.password) is wrong")
        return plain


@dataclass(frozen=True)
class JavaKeyStore:
    """The contents of a store.

    Attributes:
        trusted: The trusted certificates, in DER.
        keys: The private keys and their certificates.
    """

    trusted: Sequence[bytes]
    keys: Sequence[ProtectedKey]


def read_jks(data: bytes, password: str | None) -> JavaKeyStore:
    """Returns the contents of a store. Without a password its integrity is not checked, as in Java.

    Raises:
        ValueError: The store is damaged, or the password is wrong.
    """
    if password is not None:
        salted = password.encode("utf-16-be") + b"Mighty Aphrodite" + data[:-_DIGEST_BYTES]
        if not hmac.compare_digest(hashlib.sha1(salted).digest(), data[-_DIGEST_BYTES:]):
            raise ValueError("the password is wrong, or the store is damaged")
    stream = _Stream(data[:-_DIGEST_BYTES])
    if stream.take(4) != JKS_MAGIC:
        raise ValueError("the file is not a Java key store")
    version, count = stream.number(), stream.number()
    trusted: list[bytes] = []
    keys: list[ProtectedKey] = []
    for _ in range(count):
        tag = stream.number()
        stream.text()  # The alias.
        stream.take(8)  # The time of creation.
        if tag == _TRUSTED:
            trusted.append(stream.certificate(version))
        elif tag == _KEY:
            protected = _octets(stream.take(stream.number()))
            keys.append(
                ProtectedKey(protected, [stream.certificate(version) for _ in range(stream.number())])
            )
        else:
            raise ValueError(f"the store has an entry of unknown kind {tag}")
    return JavaKeyStore(trusted, keys)


class _Stream(BytesIO):
    """Reads numbers and texts as Java's ``DataInputStream`` does."""

    def take(self, size: int) -> bytes:
        if size > self.getbuffer().nbytes - self.tell():
            raise ValueError(_CUT_SHORT)
        return self.read(size)

    def number(self) -> int:
        return int(struct.unpack(">I", self.take(4))[0])

    def text(self) -> bytes:
        return self.take(struct.unpack(">H", self.take(2))[0])

    def certificate(self, version: int) -> bytes:
        if version > 1:
            self.text()  # The type of the certificate, always X.509.
        return self.take(self.number())


def _octets(encrypted: bytes) -> bytes:
    """Returns the data of a DER ``EncryptedPrivateKeyInfo``, which is the second element of the sequence."""
    _, body = _element(encrypted)
    rest, _ = _element(body)
    return _element(rest)[1]


def _element(der: bytes) -> tuple[bytes, bytes]:
    """Returns the bytes after the first element of ``der``, and the content of that element."""
    stream = _Stream(der)
    stream.take(1)
    size = stream.take(1)[0]
    if size & 0x80:
        size = int.from_bytes(stream.take(size & 0x7F), "big")
    content = stream.take(size)
    return stream.read(), content
