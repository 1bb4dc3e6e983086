"""Key stores and trust stores in the forms that users have them, and the errors of stores that do not open."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from ssl import PROTOCOL_TLS_CLIENT, SSLContext

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509.oid import NameOID

from flip27_stream.connectors.kafka.tls.key_stores import KeyStore, StoreType, TrustStore
from flip27_stream.errors import OptionError

_KEY = ec.generate_private_key(ec.SECP256R1())
_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client")])
_NOW = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
_CERTIFICATE = (
    x509.CertificateBuilder(_NAME, _NAME, _KEY.public_key(), 7, _NOW, _NOW + datetime.timedelta(days=1))
    .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    .sign(_KEY, SHA256())
)
CERTIFICATE = _CERTIFICATE.public_bytes(Encoding.PEM).decode()
KEY = _KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
PKCS12 = serialize_key_and_certificates(
    b"client", _KEY, _CERTIFICATE, None, BestAvailableEncryption(b"hush-hush")
)


def context() -> SSLContext:
    return SSLContext(PROTOCOL_TLS_CLIENT)


@pytest.mark.parametrize("line_break", ["\n", " ", "", r"\n", r"\r\n"])
def test_pem_text_in_one_line_is_read(line_break: str) -> None:
    """PEM text in one line is read, as JSON, environment variables and secret stores give it."""
    certificate, key = CERTIFICATE.replace("\n", line_break), KEY.replace("\n", line_break)
    trusting = context()
    TrustStore(StoreType.PEM, certificates=certificate).load_into(trusting)
    assert trusting.get_ca_certs(binary_form=True) == [_CERTIFICATE.public_bytes(Encoding.DER)]
    KeyStore(StoreType.PEM, key=key, certificate_chain=certificate).load_into(context())


def test_a_pem_store_without_its_type_is_refused(tmp_path: Path) -> None:
    """A PEM store without its type is opened as JKS, the default type. The error says so."""
    path = tmp_path / "ca.pem"
    path.write_text(CERTIFICATE)
    with pytest.raises(
        OptionError, match=r"cannot be opened as JKS: the file is PEM text.*truststore\.type'"
    ):
        TrustStore(StoreType.JKS, str(path)).load_into(context())


@pytest.mark.parametrize("key_password", [None, "hush-hush"])
def test_pkcs12_has_one_password(tmp_path: Path, key_password: str | None) -> None:
    """A PKCS12 store has one password, as in Java: a key does not open with another one."""
    path = tmp_path / "keys.p12"
    path.write_bytes(PKCS12)
    KeyStore(StoreType.PKCS12, str(path), "hush-hush", key_password=key_password).load_into(context())
    with pytest.raises(OptionError, match=r"kafka\.ssl\.key\.password differs") as caught:
        KeyStore(StoreType.PKCS12, str(path), "hush-hush", key_password="another-one").load_into(context())
    assert not re.search("hush-hush|another-one", str(caught.value))


@pytest.mark.parametrize("location", ["", "nowhere/ca.jks", "a\0b", "x" * 5000])
def test_unreadable_paths_are_named(location: str) -> None:
    with pytest.raises(OptionError, match=r"'kafka\.ssl\.truststore\.location'.*It cannot be read"):
        TrustStore(StoreType.JKS, location).load_into(context())
