"""Keys and certificates for TLS, made by the ``keytool`` that comes with Java."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal

from flip27_stream.errors import ConnectorError
from flip27_stream.testing.java import java

StoreType = Literal["PEM", "JKS", "PKCS12"]

_EXTENSIONS = (
    "SAN=IP:127.0.0.1,DNS:localhost",
    "BasicConstraints:critical=ca:true",
    "KeyUsage:critical=digitalSignature,keyEncipherment,keyCertSign",
)


class KeyPair:
    """A private key and its self-signed certificate for 127.0.0.1 and localhost, valid for two days.

    The files are created in ``directory`` when they are requested. All stores and the keys in them have one
    ``password``. PEM files have no password.
    """

    def __init__(self, directory: Path, name: str, password: str) -> None:
        self.name, self.password = name, password
        self._directory = directory

    @property
    def certificate(self) -> Path:
        """The path of the certificate in PEM."""
        path = self._file("pem")
        if not path.exists():
            self._keytool("-exportcert", "-rfc", "-file", str(path), store=self.key_store("PKCS12"))
        return path

    @property
    def private_key(self) -> Path:
        """The path of the private key in PEM (PKCS #8). Needs the package ``cryptography``."""
        path = self._file("key.pem")
        if not path.exists():
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates

            store = self.key_store("PKCS12").read_bytes()
            key, _, _ = load_key_and_certificates(store, self.password.encode())
            assert key is not None
            path.write_bytes(
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                )
            )
        return path

    def trust_store(self, kind: StoreType) -> Path:
        """Returns the path of a store with only the certificate, for clients that trust it."""
        if kind == "PEM":
            return self.certificate
        path = self._file(f"trust.{kind.lower()}")
        if not path.exists():
            certificate = str(self.certificate)
            self._keytool("-importcert", "-noprompt", "-file", certificate, "-storetype", kind, store=path)
        return path

    def key_store(self, kind: StoreType) -> Path:
        """Returns the path of a store with the private key and the certificate."""
        path = self._file("keys." + kind.lower())
        if path.exists():
            return path
        if kind == "PEM":
            path.write_bytes(self.private_key.read_bytes() + self.certificate.read_bytes())
        elif kind == "PKCS12":
            self._generate(path)
        else:
            source = str(self.key_store("PKCS12"))
            passwords = ("-srcstorepass", self.password, "-deststorepass", self.password)
            stores = ("-srckeystore", source, "-destkeystore", str(path), "-deststoretype", kind)
            self._run("-importkeystore", "-noprompt", *stores, *passwords)
        return path

    def _generate(self, path: Path) -> None:
        extensions = [part for extension in _EXTENSIONS for part in ("-ext", extension)]
        key = ("-keyalg", "RSA", "-keysize", "2048", "-dname", f"CN={self.name}", "-validity", "2")
        self._keytool("-genkeypair", *key, *extensions, "-storetype", "PKCS12", store=path)

    def _file(self, suffix: str) -> Path:
        return self._directory / f"{self.name}.{suffix}"

    def _keytool(self, command: str, *arguments: str, store: Path) -> None:
        where = ("-alias", self.name, "-keystore", str(store), "-storepass", self.password)
        self._run(command, *arguments, *where)

    def _run(self, *arguments: str) -> None:
        command = [str(Path(java()).with_name("keytool")), *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ConnectorError(f"keytool {arguments[0]} failed:\n{done.stdout}{done.stderr}")
