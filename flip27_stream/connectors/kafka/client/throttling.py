"""How long a broker that asks to be left alone, on account of a quota, is left alone (KIP-219)."""

from __future__ import annotations

from typing import Final

LONGEST_THROTTLE_MS: Final = 60_000
"""Quotas are counted over some seconds. A broker that is above one still when it is asked again says so again."""


def throttled_for_long(broker: object, throttle_ms: int) -> str:
    """The warning where a broker asks for more."""
    return (
        f"Broker {broker} wants to be sent nothing for {throttle_ms} ms on account of a quota. It is asked again after "
        f"{LONGEST_THROTTLE_MS} ms. Look at the quotas of this client (consumer_byte_rate, request_percentage)."
    )
