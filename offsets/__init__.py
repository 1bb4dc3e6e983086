"""Offsets: the versioned JSON document that Spark stores, and what the micro-batch between two of them reads.

Pure: no Spark, no client library, no clock.

The name of this top-level package is a common one. This command tells whether another package ``offsets`` is installed
in its place::

    python -c "import offsets; print(offsets.__file__, offsets.OffsetCodec)"
"""

from offsets.codec import FORMAT_VERSION, INITIAL, MARKER, OffsetCodec
from offsets.offset import Offset, SplitState
from offsets.ranges import ranges

__all__ = ["FORMAT_VERSION", "INITIAL", "MARKER", "Offset", "OffsetCodec", "SplitState", "ranges"]
