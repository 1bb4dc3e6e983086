"""No setting of Java's clients, and no option of Spark's other Kafka classes, is unknown in a shared dictionary."""

from __future__ import annotations

import pytest

from flip27_stream.connectors.kafka.options.source_options import (
    FORBIDDEN,
    KNOWN_OPTIONS,
    parse_kafka_options,
)

KAFKA_4_1_0 = """
    acks batch.size bootstrap.controllers bootstrap.servers buffer.memory client.dns.lookup
    client.id compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    connections.max.idle.ms default.api.timeout.ms delivery.timeout.ms enable.idempotence
    enable.metrics.push interceptor.classes key.serializer linger.ms max.block.ms
    max.in.flight.requests.per.connection max.request.size metadata.max.age.ms metadata.max.idle.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
    request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms security.protocol
    security.providers send.buffer.bytes socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms transaction.timeout.ms transaction.two.phase.commit.enable
    transactional.id value.serializer
"""
"""The names in Kafka's classes ProducerConfig and AdminClientConfig, version 4.1.0."""
CONFLUENT = """
    auto.register.schemas basic.auth.user.info bearer.auth.credentials.source bearer.auth.logical.cluster
    bearer.auth.token bearer.auth.uami.endpoint.query bearer.auth.uami.endpoint.url
    schema.registry.ssl.keystore.password schema.registry.ssl.truststore.location specific.avro.reader
    use.latest.version value.subject.name.strategy
"""
KAFKA_NEWER = "partitioner.rack.aware"


@pytest.mark.parametrize("name", [*KAFKA_4_1_0.split(), *CONFLUENT.split(), KAFKA_NEWER])
def test_settings_of_producers_and_of_the_admin_client_are_known(name: str) -> None:
    """Spark's source ignores settings of producers and admin clients: users share one dictionary of options."""
    assert f"kafka.{name}" in KNOWN_OPTIONS or f"kafka.{name}" in FORBIDDEN


@pytest.mark.parametrize(
    "name", ["topic", "bytesEstimateWindowLength", "kafka.acks", "kafka.bearer.auth.token"]
)
def test_settings_that_do_not_matter_to_a_source_are_no_error(name: str) -> None:
    assert parse_kafka_options({"kafka.bootstrap.servers": "there:1", "subscribe": "t", name: "1"})
