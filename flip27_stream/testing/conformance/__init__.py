"""The conformance suite: what every source must do, checked without Spark (Flink's ``connector.testframe``)::

    class TestMySource(SourceConformanceSuite):
        def create_system(self) -> ExternalSystem:
            return MySystem()

Its methods begin with ``test_`` for pytest or ``unittest``, and need neither of them. Each raises ``AssertionError``
with what is wrong. If the system lacks a hook for a check, the check raises :class:`NotProvided` (a
``unittest.SkipTest``) with what is not checked. The methods plan with the real coordinator and read with the source's
readers, in this process. Everything that Spark would send to another process is pickled.
"""

from flip27_stream.testing.conformance.suite import SourceConformanceSuite
from flip27_stream.testing.conformance.system import ExternalSystem, NotProvided

__all__ = ["ExternalSystem", "NotProvided", "SourceConformanceSuite"]
