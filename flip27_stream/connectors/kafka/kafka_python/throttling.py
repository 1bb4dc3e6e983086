"""The limit of the throttle time that a broker asks for because of a quota (KIP-219)."""

from __future__ import annotations

from typing import Final

LONGEST_THROTTLE_MS: Final = 60_000
"""The greatest throttle time that is respected, in ms.

Quotas are counted over some seconds. A client that still exceeds its quota after this time is throttled again.
"""


def throttled_for_long(broker: object, throttle_ms: int) -> str:
    """Returns the warning about a broker whose throttle time exceeds :data:`LONGEST_THROTTLE_MS`."""
    return (
        f"Broker {broker} asks for no requests for {throttle_ms} ms because of a quota. It gets the next request after "
        f"{LONGEST_THROTTLE_MS} ms. Check the quotas of this client (consumer_byte_rate, request_percentage)."
    )
