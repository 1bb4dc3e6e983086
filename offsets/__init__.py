"""Offsets: the versioned JSON documents that Spark stores, and the ranges that a micro-batch reads between two offsets.

Pure: no Spark, no client library, no clock.

Other projects may also have a package ``offsets``. This command shows which package is installed::

    python -c "import offsets; print(offsets.__file__, offsets.OffsetCodec)"
"""

from offsets.codec import FORMAT_VERSION, INITIAL, MARKER, OffsetCodec
from offsets.offset import Offset, SplitState
from offsets.ranges import ranges

__all__ = ["FORMAT_VERSION", "INITIAL", "MARKER", "Offset", "OffsetCodec", "SplitState", "ranges"]
