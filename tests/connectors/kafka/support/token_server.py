"""A token server on this machine with faults, and signed tokens."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.connectors.support.http_answers import AnswerHandler, QuietServer, serving


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Signer:
    """Signs JSON Web Tokens (RS256), and has the set of keys with which a broker checks them."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def jwks(self) -> str:
        """Returns the JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        modulus = _base64(numbers.n.to_bytes(256, "big"))
        key = {"kty": "RSA", "kid": "k1", "use": "sig", "alg": "RS256", "n": modulus, "e": "AQAB"}
        return json.dumps({"keys": [key]})

    def token(self, life_s: float = 3600, **claims: Any) -> str:
        """Returns a token that expires in ``life_s`` seconds."""
        now = int(time.time())
        body = {
            "sub": "alice",
            "aud": "kafka",
            "scope": "read",
            "iat": now,
            "exp": int(now + life_s),
        } | claims
        head = {"alg": "RS256", "kid": "k1", "typ": "JWT"}
        signed = ".".join(_base64(json.dumps(part).encode()) for part in (head, body))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"


@dataclass
class Asked:
    """A received request: its headers, by names in lower case, and the fields of its form."""

    headers: Mapping[str, str]
    form: Mapping[str, list[str]]


@dataclass
class TokenServer:
    """A server that answers each request with the result of ``answer``.

    Attributes:
        answer: Returns status and body, and optional headers.
        url: The address of the server.
        asked: The requests so far.
    """

    answer: Callable[[], Any]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def token_server(answer: Callable[[], Any]) -> Iterator[TokenServer]:
    """Runs a server. ``answer`` can be replaced meanwhile."""
    running = TokenServer(answer)

    class Handler(AnswerHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            running.asked.append(Asked({k.lower(): v for k, v in self.headers.items()}, form))
            self.send_answer(running.answer())

    with QuietServer(("127.0.0.1", 0), Handler) as server:
        running.url = f"http://127.0.0.1:{server.server_port}/oauth2/token"
        with serving(server):
            yield running


def granted(token: str, **more: Any) -> tuple[int, bytes]:
    """Returns the answer of a server that grants a token."""
    return 200, json.dumps({"access_token": token, "token_type": "Bearer", **more}).encode()
