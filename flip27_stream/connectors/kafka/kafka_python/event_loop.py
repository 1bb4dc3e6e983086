"""The event loop and the futures of kafka-python."""

from __future__ import annotations

from kafka.future import Future
from kafka.net.selector import NetworkSelector

__all__ = ["Future", "NetworkSelector"]
