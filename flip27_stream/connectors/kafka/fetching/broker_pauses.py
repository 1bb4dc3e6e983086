"""The times at which brokers get no request: because of a quota, or after a connection has failed."""

from __future__ import annotations

import logging
import time

from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.kafka_python.throttling import LONGEST_THROTTLE_MS, throttled_for_long
from flip27_stream.exponential_backoff import exponential_backoff

log = logging.getLogger(__name__)

_WARNED_FROM_MS = 1000


class BrokerPauses:
    """The time until which each broker gets no request.

    Args:
        options: The reconnect backoff.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self._least_s = options.reconnect_backoff_ms / 1000
        self._most_s = options.reconnect_backoff_max_ms / 1000
        self._failures: dict[int, int] = {}
        self._until: dict[int, float] = {}
        self._throttled_until: dict[int, float] = {}
        self._warned: set[int] = set()

    def is_paused(self, node: int) -> bool:
        """Returns whether a broker gets no request now."""
        return time.monotonic() < max(self._until.get(node, 0.0), self.throttled_until(node))

    def failures(self, node: int) -> int:
        """Returns the number of connections that broke, or could not be made, since the last answer of the broker."""
        return self._failures.get(node, 0)

    def throttled_until(self, node: int) -> float:
        """Returns the end of the throttle time of a broker in monotonic seconds; 0 if the broker does not throttle."""
        return self._throttled_until.get(node, 0.0)

    def answered(self, node: int, throttle_ms: int) -> None:
        """Records an answer of a broker, which accepts no request for ``throttle_ms`` (KIP-219).

        The pause is limited to ``LONGEST_THROTTLE_MS``.
        """
        self._failures.pop(node, None)
        self._until.pop(node, None)
        pause_s = min(throttle_ms, LONGEST_THROTTLE_MS) / 1000
        self._throttled_until[node] = time.monotonic() + pause_s if throttle_ms > 0 else 0.0
        if throttle_ms > LONGEST_THROTTLE_MS:
            log.warning(throttled_for_long(node, throttle_ms))
        elif throttle_ms >= _WARNED_FROM_MS and node not in self._warned:
            self._warned.add(node)
            log.warning(
                "This client has used up its quota at broker %s, which sends nothing for %s ms. Reading is slow until "
                "the quota (consumer_byte_rate, request_percentage) is raised or less is read.",
                node,
                throttle_ms,
            )

    def failed(self, node: int) -> None:
        """Records a connection that broke, or could not be made. The pause grows with each failure in a row."""
        failures = self.failures(node)
        self._failures[node] = failures + 1
        self._until[node] = time.monotonic() + exponential_backoff(self._least_s, self._most_s, failures)
