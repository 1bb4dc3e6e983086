"""The Java client of Pulsar, which has transactions. pulsar-client has none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]

from flip27_stream.testing import PulsarServer
from flip27_stream.testing.java import java
from flip27_stream.testing.pulsar.server_jars import fetch


class Transactions:
    """Publishes messages to a partition within transactions."""

    def __init__(self, gateway: JavaGateway, client: Any) -> None:
        self._gateway, self._client = gateway, client

    def begin(self, partition: str, values: Sequence[bytes]) -> Any:
        """Opens a transaction and publishes messages in it. It has the methods ``commit`` and ``abort``."""
        seconds = self._gateway.jvm.java.util.concurrent.TimeUnit.SECONDS
        transaction = self._client.newTransaction().withTransactionTimeout(300, seconds).build().get()
        producer = (
            self._client.newProducer()
            .topic(f"persistent://public/default/{partition}")
            .sendTimeout(0, seconds)
            .create()
        )
        for value in values:
            producer.newMessage(transaction).value(bytearray(value)).send()
        producer.close()
        return transaction


@contextmanager
def transactions(server: PulsarServer) -> Iterator[Transactions]:
    """A JVM with a client, which ends with the block."""
    jars = [*fetch(), *Path(pyspark.__file__).parent.glob("jars/py4j-*.jar")]
    gateway = JavaGateway.launch_gateway(
        jarpath=str(jars[-1]),
        classpath=os.pathsep.join(map(str, jars)),
        die_on_exit=True,
        java_path=java(),
        javaopts=["-Xmx128m", "-XX:TieredStopAtLevel=1"],
    )
    try:
        builder = gateway.jvm.org.apache.pulsar.client.api.PulsarClient.builder()
        client = builder.serviceUrl(server.service_url).enableTransaction(True).build()
        yield Transactions(gateway, client)
    finally:
        gateway.shutdown()
