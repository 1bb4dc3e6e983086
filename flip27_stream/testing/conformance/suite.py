"""The suite: all checks of a source."""

from __future__ import annotations

from flip27_stream.testing.conformance.event_times import EventTimeChecks
from flip27_stream.testing.conformance.faults import FaultChecks
from flip27_stream.testing.conformance.reading import ReadingChecks
from flip27_stream.testing.conformance.restarts import RestartChecks
from flip27_stream.testing.conformance.running import RunningChecks


class SourceConformanceSuite(ReadingChecks, RestartChecks, EventTimeChecks, RunningChecks, FaultChecks):
    """The checks; subclass it and say which system to use.

    Attributes:
        strategy: how event time is found in the source's rows, for the checks of alignment.
        unit_ms: how much event time the smallest piece spans that a split can be cut into; 0 where it can be cut before
            any record.
        splits_finish: whether a split that is read to its end gets nothing more, as a file, and so holds no other back.
        large_split: more records than a reader gets in one fetch.
        gives_up_within_s: how long (s) a query may try in vain before it fails.
    """
