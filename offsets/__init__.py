"""Offsets: the versioned JSON document that Spark stores, and what the micro-batch between two of them reads.

Pure: no Spark, no client library, no clock.
"""

from offsets.codec import FORMAT_VERSION, INITIAL, MARKER, OffsetCodec
from offsets.offset import Offset, SplitState
from offsets.ranges import ranges

__all__ = ["FORMAT_VERSION", "INITIAL", "MARKER", "Offset", "OffsetCodec", "SplitState", "ranges"]
