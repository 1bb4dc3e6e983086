"""Answers of SubscribeToShard as event streams, which are put in between boto3 and the network."""

from __future__ import annotations

import base64
import json
import struct
from binascii import crc32
from collections.abc import Mapping, Sequence
from typing import Any


def subscription(*events: bytes) -> bytes:
    """Returns an answer with these events, after which the subscription ends."""
    return _message({":message-type": "event", ":event-type": "initial-response"}, {}) + b"".join(events)


def records_event(records: Sequence[Mapping[str, Any]], *, behind_ms: int = 1000) -> bytes:
    """Returns an event with records as boto3 has them."""
    encoded = [
        {
            "ApproximateArrivalTimestamp": float(r["ApproximateArrivalTimestamp"].timestamp()),
            "Data": base64.b64encode(r["Data"]).decode(),
            "PartitionKey": r["PartitionKey"],
            "SequenceNumber": r["SequenceNumber"],
        }
        for r in records
    ]
    body = {"Records": encoded, "ContinuationSequenceNumber": "1", "MillisBehindLatest": behind_ms}
    return _message({":message-type": "event", ":event-type": "SubscribeToShardEvent"}, body)


def exception_event(code: str) -> bytes:
    """Returns an event with an error that ends a subscription."""
    return _message({":message-type": "exception", ":exception-type": code}, {"message": f"{code} came"})


def _message(headers: Mapping[str, str], body: object) -> bytes:
    """Returns a message in AWS' event stream encoding."""
    encoded = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    payload = json.dumps(body).encode()
    prelude = struct.pack(">II", 16 + len(encoded) + len(payload), len(encoded))
    message = prelude + struct.pack(">I", crc32(prelude)) + encoded + payload
    return message + struct.pack(">I", crc32(message))
