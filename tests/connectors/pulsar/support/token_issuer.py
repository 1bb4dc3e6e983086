"""An issuer of OAuth2 tokens on this machine, for clients with a password (client credentials)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs

from tests.connectors.support.http_answers import AnswerHandler, serving

_DISCOVERY = "/.well-known/openid-configuration"
_TOKENS = "/oauth/token"


@dataclass
class TokenIssuer:
    """A running issuer.

    Attributes:
        password: The password of all clients.
        new_token: Makes a token that expires in so many seconds.
        url: The address of the issuer.
        life_s: When tokens expire (s).
        granted: The number of tokens that it has given.
    """

    password: str
    new_token: Callable[[int], str]
    url: str = ""
    life_s: int = 3600
    granted: int = 0

    def answer(self, form: dict[str, list[str]]) -> tuple[int, bytes]:
        """Returns the answer to a request for a token."""
        if form.get("client_secret") != [self.password]:
            return 401, b'{"error": "invalid_client"}'
        self.granted += 1
        token = {
            "access_token": self.new_token(self.life_s),
            "token_type": "Bearer",
            "expires_in": self.life_s,
        }
        return 200, json.dumps(token).encode()


@contextmanager
def token_issuer(password: str, new_token: Callable[[int], str]) -> Iterator[TokenIssuer]:
    """Runs an issuer until the block ends."""
    running = TokenIssuer(password, new_token)

    class Handler(AnswerHandler):
        def do_GET(self) -> None:
            known = json.dumps({"issuer": running.url, "token_endpoint": running.url + _TOKENS}).encode()
            self.send_answer((200, known) if self.path == _DISCOVERY else (404, b"{}"))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.send_answer(running.answer(parse_qs(body)))

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        running.url = f"http://127.0.0.1:{server.server_port}"
        with serving(server):
            yield running
