"""The sockets of kafka-python's event loop, with TLS or without."""

from __future__ import annotations

import ssl

from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport


class _KeepsLastBytes:
    """A socket that returns the bytes that arrived just before the broker closed it, which kafka-python drops."""

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        data, error = super()._sock_recv()  # type: ignore[misc]
        return data, None if data else error  # The next call finds the end of the stream again.


class TcpTransport(_KeepsLastBytes, KafkaTCPTransport):  # type: ignore[misc] # kafka-python has no types
    """A connected socket without TLS."""


class TlsTransport(_KeepsLastBytes, KafkaSSLTransport):  # type: ignore[misc] # kafka-python has no types
    """A connected socket with TLS."""

    async def handshake(self, deadline: float) -> None:
        """Makes the TLS handshake, and checks the certificate of the broker, until ``deadline`` (monotonic seconds)."""
        while True:
            try:
                self._sock.do_handshake()
            except ssl.SSLWantReadError:  # noqa: PERF203 - a few round trips
                await self._net.wait_read(self._sock, deadline)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, deadline)
            else:
                return
