"""The channel from tasks to the coordinator: one message and one answer over TCP for each report of a task.

1. The listener sends a greeting: its protocol and a nonce for this connection; or that it is busy.
2. The task sends the report: a header with the length and the SHA-256 of the JSON text, and the HMAC of both with the
   nonce under the query's key; then the text. The header alone proves that the sender has the key; without the proof
   the listener reads nothing more.
3. The listener answers with an HMAC, which proves that it has received this report.

No side writes twice before it reads, and both set TCP_NODELAY, so that no write waits for a delayed acknowledgement.
Nothing is unpickled. Reports are an optimisation: without them, planning uses the event times that it finds itself.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

READY, BUSY = b"flip27 1", b"flip27 -"
NONCE = MAC = 32
GREETING = len(READY) + NONCE
HEADER = struct.Struct(f"!I{hashlib.sha256().digest_size}s{MAC}s")
MAX_MESSAGE = 16 * 1024 * 1024
"""The greatest length (bytes) of the text of a report."""


@dataclass(frozen=True)
class ReportAddress:
    """The address to which tasks send reports.

    Attributes:
        host: The host name or address of the driver, as executors reach it.
        port: The port of the listener.
        key: The HMAC key of the query.
    """

    host: str
    port: int
    key: bytes = field(repr=False)

    def prove(self, what: bytes, nonce: bytes, said: bytes) -> bytes:
        """Returns the HMAC that proves that a sender with the key has sent ``said`` on a connection with ``nonce``.

        Args:
            what: The kind of message.
            nonce: The nonce of the connection.
            said: The content of the message.
        """
        return hmac.digest(self.key, what + nonce + said, "sha256")
