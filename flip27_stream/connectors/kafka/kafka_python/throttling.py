"""The bound on the time for which a broker asks for no requests, on account of a quota (KIP-219)."""

from __future__ import annotations

from typing import Final

LONGEST_THROTTLE_MS: Final = 60_000
"""Quotas are counted over some seconds. A client that is still above its quota after this time is told so again."""


def throttled_for_long(broker: object, throttle_ms: int) -> str:
    """The warning about a broker that asks for a longer time."""
    return (
        f"Broker {broker} wants to be sent nothing for {throttle_ms} ms on account of a quota. It is asked again after "
        f"{LONGEST_THROTTLE_MS} ms. Look at the quotas of this client (consumer_byte_rate, request_percentage)."
    )
