"""A faulty network: TCP links between any client and any server, and faults of these links."""

from __future__ import annotations

from flip27_stream.testing.faulty_network.faults import (
    BlackHole,
    CutAfter,
    Delay,
    Fault,
    HalfOpen,
    HangInTls,
    Refuse,
    Silence,
    Throttle,
    Unreachable,
)
from flip27_stream.testing.faulty_network.link import AppliedFault, Link
from flip27_stream.testing.faulty_network.network import FaultyNetwork
from flip27_stream.testing.faulty_network.schedule import PlannedFault, fault_schedule

__all__ = [
    "AppliedFault",
    "BlackHole",
    "CutAfter",
    "Delay",
    "Fault",
    "FaultyNetwork",
    "HalfOpen",
    "HangInTls",
    "Link",
    "PlannedFault",
    "Refuse",
    "Silence",
    "Throttle",
    "Unreachable",
    "fault_schedule",
]
