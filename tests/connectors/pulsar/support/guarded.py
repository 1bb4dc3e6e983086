"""A server with TLS that authenticates its clients: by tokens, certificates of clients, or user and password."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import ssl
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.testing import PulsarServer
from flip27_stream.testing.free_ports import free_port
from flip27_stream.testing.kafka.key_pair import KeyPair
from tests.connectors.pulsar.support.kit import QUICK
from tests.connectors.support.http_answers import AnswerHandler, QuietServer, serving

ADMIN, READER, STRANGER = "admin", "reader", "stranger"
PASSWORD = "open-sesame"
"""Of the reader, who has it as a line of Apache's password files, too."""
_PASSWORD_LINE = f"{READER}:$apr1$saltsalt$KlYmbxGi6RFqoNneyFPyH/\n"
_PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProvider"


def token_of(user: str, key: bytes, life_s: int | None = None) -> str:
    """Returns a JSON Web Token, signed with HMAC-SHA256, that expires in so many seconds or never."""

    def encoded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    claims = {"sub": user} if life_s is None else {"sub": user, "exp": int(time.time()) + life_s}
    text = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "HS256"}, claims))
    return f"{text}.{encoded(hmac.digest(key, text.encode(), hashlib.sha256))}"


class Guarded:
    """A server on which the role "reader" may read, and an authenticated "stranger" may not.

    Attributes:
        server: The server; it is to be entered.
        server_keys: The server's certificate.
        client_keys: The reader's certificate.
    """

    def __init__(self, folder: Path) -> None:
        self._key = secrets.token_bytes(32)
        self.server_keys = KeyPair(folder, "server", secrets.token_hex(16))
        self.client_keys = KeyPair(folder, READER, secrets.token_hex(16))
        self._port = free_port()
        admin = self.token(ADMIN)
        settings = {
            "authenticationEnabled": "true",
            "authenticationProviders": ",".join(_PROVIDER + kind for kind in ("Token", "Tls", "Basic")),
            "authenticationRefreshCheckSeconds": "1",
            "authorizationEnabled": "true",
            "superUserRoles": ADMIN,
            "tokenSecretKey": _data_url(self._key),
            "basicAuthConf": _data_url(_PASSWORD_LINE.encode()),
            "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
            "brokerClientAuthenticationParameters": f"token:{admin}",
            "brokerServicePortTls": str(self._port),
            "tlsCertificateFilePath": str(self.server_keys.certificate),
            "tlsKeyFilePath": str(self.server_keys.private_key),
            "tlsTrustCertsFilePath": str(self.client_keys.certificate),
        }
        self.server = PulsarServer(settings, token=admin)

    def token(self, user: str, life_s: int | None = None) -> str:
        return token_of(user, self._key, life_s)

    def create_topic(self, name: str, partitions: int) -> None:
        """Creates a topic that the reader may read."""
        self.server.create_topic(name, partitions)
        self.server.admin("POST", f"namespaces/public/default/permissions/{READER}", ["consume"])

    @contextmanager
    def admin_over_tls(self) -> Iterator[str]:
        """Yields the URL of the admin API behind a TLS server, as an ingress is."""
        plain_url = self.server.admin_url

        class Relay(AnswerHandler):
            def do_GET(self) -> None:
                asked = urllib.request.Request(plain_url + self.path)
                asked.add_header("Authorization", self.headers["Authorization"])
                with urllib.request.urlopen(asked) as answer:
                    self.send_answer((answer.status, answer.read()))

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.server_keys.certificate, self.server_keys.private_key)
        with QuietServer(("127.0.0.1", 0), Relay) as server:
            server.socket = context.wrap_socket(server.socket, server_side=True)
            with serving(server):
                yield f"https://127.0.0.1:{server.server_port}"

    def source(self, topic: str, plugin: str | None, params: str = "", **more: str) -> PulsarSource:
        """Reads the topic over TLS, trusts the server's certificate, and authenticates with a method."""
        options = {
            **QUICK,
            "service.url": f"pulsar+ssl://127.0.0.1:{self._port}",
            "pulsar.client.tlsTrustCertsFilePath": str(self.server_keys.certificate),
            "pulsar.client.tlsHostnameVerificationEnable": "true",
            "pulsar.client.operationTimeoutMs": "3000",
        }
        if plugin is not None:
            options |= {
                "pulsar.client.authPluginClassName": plugin,
                "pulsar.client.authParams": params,
            }
        topics = {"topic": topic} if "topicsPattern" not in more else {}
        return PulsarSource({**options, **topics, **more})


def _data_url(data: bytes) -> str:
    return "data:;base64," + base64.b64encode(data).decode()
