"""The conformance suite: checks of the rules for all sources, without Spark (Flink's ``connector.testframe``)::

    class TestMySource(SourceConformanceSuite):
        def create_system(self) -> ExternalSystem:
            return MySystem()

The methods of the suite begin with ``test_``, so pytest and ``unittest`` run them; they can also be called directly.
A check that fails raises ``AssertionError``, and its message names the defect. A check that needs a hook which the
system lacks raises :class:`NotProvided` (a ``unittest.SkipTest``). The methods plan with the real coordinator and
read with the source's readers, in this process. All objects that Spark would send to another process are pickled.
"""

from flip27_stream.testing.conformance.suite import SourceConformanceSuite
from flip27_stream.testing.conformance.system import ExternalSystem, NotProvided

__all__ = ["ExternalSystem", "NotProvided", "SourceConformanceSuite"]
