"""The public test kit: a conformance suite, servers of Kafka, Pulsar and Kinesis, a faulty network, a clock, Spark.

::

    with KafkaBroker(listeners=["SASL_SSL"]) as broker:       # one node, in about two seconds
        broker.create_topic("clicks", partitions=4)
        broker.write("clicks", [(0, 1_700_000_000_000, b"key", b"value")])
        broker.bootstrap_servers                              # needs no authentication
        broker.secure.bootstrap_servers("SASL_SSL")           # with broker.secure.user and .password,
        broker.secure.broker_keys.trust_store("JKS")          # or "PEM", or "PKCS12"

    with KafkaCluster(nodes=3) as cluster:                    # in about five seconds
        cluster.create_topic("clicks", partitions=4)
        cluster.kill(cluster.leader_of("clicks", 0))          # or pause(), resume(), restart()

    with KinesisServer() as server:                           # an emulator, in less than a second; needs Node.js
        server.create_stream("clicks", shards=2)
        server.put("clicks", [(0, b"value")])
        server.options                                        # with which flip27_kinesis connects

    with PulsarServer() as server:                            # a real standalone server, in about five seconds
        server.create_topic("clicks", partitions=2)
        server.put("clicks-partition-0", [b"value"])
        server.options                                        # with which flip27_pulsar connects

    with FaultyNetwork() as network, KafkaBroker(through=network.link) as broker:
        link = network.links["PLAINTEXT"]                     # to which broker.bootstrap_servers leads
        with link.apply(CutAfter(100)):                       # or Delay, Throttle, BlackHole, HalfOpen, Refuse,
            ...                                               # Unreachable, Silence, HangInTls

A subclass of :class:`SourceConformanceSuite` checks that your own source keeps the rules of the source API.

Servers listen on free loopback ports and keep their data in temporary directories. They end at the end of the block,
or when the process that started them ends, even by ``kill -9``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flip27_stream.testing.clock import Clock, ManualClock
from flip27_stream.testing.faulty_network import (
    BlackHole,
    CutAfter,
    Delay,
    Fault,
    FaultyNetwork,
    HalfOpen,
    HangInTls,
    Link,
    PlannedFault,
    Refuse,
    Silence,
    Throttle,
    Unreachable,
    fault_schedule,
)
from flip27_stream.testing.kafka.broker import KafkaBroker
from flip27_stream.testing.kafka.bulk import write_bulk
from flip27_stream.testing.kafka.cluster import KafkaCluster
from flip27_stream.testing.kafka.secure_listeners import SecureListener
from flip27_stream.testing.kafka.topics import KafkaRecord
from flip27_stream.testing.kinesis import KinesisServer
from flip27_stream.testing.pulsar import PulsarServer
from flip27_stream.testing.session import local_session
from flip27_stream.testing.waiting import wait_until

if TYPE_CHECKING:
    from flip27_stream.testing.conformance import ExternalSystem, NotProvided, SourceConformanceSuite

__all__ = [
    "BlackHole",
    "Clock",
    "CutAfter",
    "Delay",
    "ExternalSystem",
    "Fault",
    "FaultyNetwork",
    "HalfOpen",
    "HangInTls",
    "KafkaBroker",
    "KafkaCluster",
    "KafkaRecord",
    "KinesisServer",
    "Link",
    "ManualClock",
    "NotProvided",
    "PlannedFault",
    "PulsarServer",
    "Refuse",
    "SecureListener",
    "Silence",
    "SourceConformanceSuite",
    "Throttle",
    "Unreachable",
    "fault_schedule",
    "local_session",
    "wait_until",
    "write_bulk",
]


def __getattr__(name: str) -> Any:
    """Imports the conformance suite on demand, because it imports the Spark adapter, which the servers do not need."""
    if name in ("ExternalSystem", "NotProvided", "SourceConformanceSuite"):
        from flip27_stream.testing import conformance

        return getattr(conformance, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
