"""The public test kit: a real Kafka broker, records by the million, a clock to advance, a local Spark."""

from flip27_stream.testing.broker import KafkaBroker, Record
from flip27_stream.testing.bulk import write_bulk
from flip27_stream.testing.clock import Clock, ManualClock
from flip27_stream.testing.session import local_session
from flip27_stream.testing.waiting import wait_until

__all__ = ["Clock", "KafkaBroker", "ManualClock", "Record", "local_session", "wait_until", "write_bulk"]
