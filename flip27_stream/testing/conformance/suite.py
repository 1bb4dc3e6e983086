"""The conformance suite with all checks of a source."""

from __future__ import annotations

from flip27_stream.testing.conformance.event_times import EventTimeChecks
from flip27_stream.testing.conformance.faults import FaultChecks
from flip27_stream.testing.conformance.reading import ReadingChecks
from flip27_stream.testing.conformance.restarts import RestartChecks
from flip27_stream.testing.conformance.running import RunningChecks


class SourceConformanceSuite(ReadingChecks, RestartChecks, EventTimeChecks, RunningChecks, FaultChecks):
    """All checks of a source. A subclass creates the system to test with.

    Attributes:
        strategy: How event time is found in the source's rows, for the checks of alignment.
        unit_ms: The event time (ms) that the smallest part of a split spans; 0 if a split can be divided at any record.
        splits_finish: Whether a split that is read to its end gets no more records, like a file, and so holds back no
            other split.
        large_split: A number of records that a reader needs several fetches for.
        gives_up_within_s: The longest time (s) that a query may retry before it fails.
    """
