"""The public test kit: real Kafka brokers, records by the million, a clock to advance, a local Spark.

::

    with KafkaBroker(listeners=["SASL_SSL"]) as broker:       # one node, in about two seconds
        broker.create_topic("clicks", partitions=4)
        broker.write("clicks", [(0, 1_700_000_000_000, b"key", b"value")])
        broker.bootstrap_servers                              # asks for nothing
        broker.secure.bootstrap_servers("SASL_SSL")           # with broker.secure.user and .password,
        broker.secure.broker_keys.trust_store("JKS")          # or "PEM", or "PKCS12"

    with KafkaCluster(nodes=3) as cluster:                    # in about five seconds
        cluster.create_topic("clicks", partitions=4)
        cluster.kill(cluster.leader_of("clicks", 0))          # or pause(), resume(), restart()

Servers listen on free loopback ports, keep their data in temporary directories, and end with the block, or with the
process that started them, however it ends.
"""

from flip27_stream.testing.broker import KafkaBroker
from flip27_stream.testing.bulk import write_bulk
from flip27_stream.testing.clock import Clock, ManualClock
from flip27_stream.testing.cluster import KafkaCluster
from flip27_stream.testing.secure_listeners import SecureListener
from flip27_stream.testing.session import local_session
from flip27_stream.testing.topics import Record
from flip27_stream.testing.waiting import wait_until

__all__ = [
    "Clock",
    "KafkaBroker",
    "KafkaCluster",
    "ManualClock",
    "Record",
    "SecureListener",
    "local_session",
    "wait_until",
    "write_bulk",
]
