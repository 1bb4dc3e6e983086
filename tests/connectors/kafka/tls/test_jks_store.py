"""Java key stores that Java's own keytool made are read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key
from cryptography.x509 import load_der_x509_certificate
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.kafka.tls.jks_store import JKS_MAGIC, read_jks
from flip27_stream.connectors.kafka.tls.store_formats import Jks
from flip27_stream.testing.java import java


def keytool(*arguments: str) -> None:
    command = [
        str(Path(java()).resolve().with_name("keytool")),
        *arguments,
        "-storetype",
        "JKS",
        "-storepass",
        "store-secret",
    ]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def key_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jks") / "keys.jks"
    keytool("-genkeypair", "-keystore", str(path), "-alias", "one", "-keyalg", "RSA", "-dname", "CN=one",
            "-keypass", "key-secret")  # fmt: skip
    return path


@pytest.mark.jvm
def test_a_key_and_its_certificates_are_read(key_store: Path) -> None:
    """A key has a password of its own, with which it opens."""
    store = read_jks(key_store.read_bytes(), "store-secret")
    (key,) = store.keys
    certificate = load_der_x509_certificate(key.chain[0])
    private = load_der_private_key(key.pkcs8("key-secret"), None)
    assert private.public_key() == certificate.public_key()
    with pytest.raises(ValueError, match=r"kafka\.ssl\.key\.password"):
        key.pkcs8("store-secret")


@pytest.mark.jvm
def test_trusted_certificates_are_read(key_store: Path, tmp_path: Path) -> None:
    exported, trust = tmp_path / "one.crt", tmp_path / "trust.jks"
    keytool("-exportcert", "-keystore", str(key_store), "-alias", "one", "-file", str(exported))
    for alias in ("a", "b"):
        keytool("-importcert", "-noprompt", "-keystore", str(trust), "-alias", alias, "-file", str(exported))
    assert list(read_jks(trust.read_bytes(), None).trusted) == [exported.read_bytes()] * 2


@pytest.mark.jvm
def test_a_wrong_password_or_a_damaged_store_is_refused(key_store: Path) -> None:
    data = key_store.read_bytes()
    with pytest.raises(ValueError, match="the password is wrong, or the store is damaged"):
        read_jks(data, "guess")
    with pytest.raises(ValueError, match="the password is wrong, or the store is damaged"):
        read_jks(data[:-30], "store-secret")
    with pytest.raises(ValueError, match="ends too early"):
        read_jks(data[:-30], None)


PARTS = st.sampled_from(
    [
        *(b"\0\0\0\1\0\0", b"\0\0\0\2\0\0"),  # an entry of a key, and of a certificate, without alias
        *(bytes(8), b"\0\0\0\4", b"\0\0\0\x10"),  # a time, and lengths
        *(b"\x30\x02", b"\x30\x00", b"\x30\x82\0\2", b"\x30\xff"),  # elements in DER
    ]
)


def store(entries: int, data: bytes) -> bytes:
    """Returns a store that says that it has ``entries`` entries. Its digest is wrong."""
    return JKS_MAGIC + b"\0\0\0\2" + entries.to_bytes(4, "big") + data + bytes(20)


def key_entry(der: bytes) -> bytes:
    """Returns the entry of a key without alias and without certificates."""
    return b"\0\0\0\1" + bytes(2 + 8) + len(der).to_bytes(4, "big") + der + bytes(4)


@given(st.lists(PARTS | st.binary(max_size=9), max_size=9).map(b"".join))
def test_random_bytes_are_refused(garbage: bytes) -> None:
    """A store that says that it has 99 entries is refused if it has fewer, whatever they are."""
    with pytest.raises(ValueError, match=r"^(it ends too early|the store has an entry of unknown kind \d+)$"):
        read_jks(store(99, garbage), None)


def test_a_length_that_does_not_fit_64_bits_is_refused() -> None:
    """DER has lengths of up to 127 bytes. A damaged key may have one."""
    with pytest.raises(ValueError, match=r"^it ends too early$"):
        read_jks(store(1, key_entry(b"\x30\xff" + b"\xff" * 127)), None)


def test_a_key_without_certificates_is_not_trusted() -> None:
    """Nothing is trusted because of a key without certificates. Java writes no such key."""
    assert Jks.certificates(store(1, key_entry(bytes.fromhex("3004 3000 0400"))), None) == []
