"""Calls of servers that speak HTTP, with a time limit, and without redirects."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from http import HTTPStatus
from http.client import HTTPException
from ssl import SSLContext
from typing import Any, Final

_CHUNK: Final = 1 << 14
_TRY_AGAIN: Final = frozenset({408, 425, 429})


class HttpRefusal(Exception):  # noqa: N818 - it is an answer, and its caller makes the error
    """An HTTP error response that a retry would not change.

    Attributes:
        code: The HTTP status code.
        reason: The standard phrase of the status code. That of the server could repeat a secret.
        body: The body of the answer.
    """

    def __init__(self, code: int, reason: str, body: bytes) -> None:
        super().__init__(code, reason, body)
        self.code, self.reason, self.body = code, reason, body


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that refuses redirects, because a redirect would send the credentials to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def call(
    request: urllib.request.Request, timeout_s: float, most_bytes: int, context: SSLContext | None = None
) -> bytes:
    """Returns the body of the answer to a request.

    Args:
        request: The request.
        timeout_s: The time limit of the connection, and that of the answer, in seconds.
        most_bytes: The greatest size of an answer that is read, in bytes.
        context: The TLS context; ``None`` for certificates that this machine trusts.

    Raises:
        HttpRefusal: The server refused the request.
        OSError: The server cannot be reached, does not answer in time, or answers with a temporary error.
    """
    deadline = time.monotonic() + timeout_s
    handlers = [] if context is None else [urllib.request.HTTPSHandler(context=context)]
    opener = urllib.request.build_opener(_NoRedirects, *handlers)
    try:
        with opener.open(request, timeout=timeout_s) as response:
            announced = response.length or 0
            body = _body(response, deadline, most_bytes)
            if len(body) < announced:  # read1() treats a lost connection as the end of the answer.
                raise ConnectionAbortedError(f"the answer ends after {len(body)} of {announced} bytes")
            return body
    except urllib.error.HTTPError as error:
        with error:
            if error.code >= 500 or error.code in _TRY_AGAIN:
                raise ConnectionAbortedError(
                    f"the server answers {error.code} {_phrase(error.code)}"
                ) from None
            raise HttpRefusal(error.code, _phrase(error.code), _body(error, deadline, most_bytes)) from None
    except HTTPException as error:
        # The text of the error may have the address, or an answer that repeats the request.
        raise ConnectionAbortedError(f"the server does not speak HTTP: {type(error).__name__}") from None


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return "(not a standard status)"


def _body(response: Any, deadline: float, most_bytes: int) -> bytes:
    """Returns the bytes of a response.

    Raises:
        OSError: The response is too large, or does not end in time, even if the server goes on sending bytes.
    """
    parts: list[bytes] = []
    size = 0
    while part := response.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > most_bytes or time.monotonic() > deadline:
            raise TimeoutError("the answer does not end")
    return b"".join(parts)
