"""Encrypted and chunked messages of a real server are refused by name; a compacted topic is read as it was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flip27_stream.connectors.pulsar.client.client import PulsarClient
from flip27_stream.connectors.pulsar.options.connection_options import PulsarConnectionOptions
from flip27_stream.connectors.pulsar.positions import EARLIEST
from flip27_stream.connectors.pulsar.records.columns import rows_of
from flip27_stream.errors import RecordFormatError
from flip27_stream.testing import PulsarServer, wait_until
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.pulsar.support.kit import numbers, source_of

pytestmark = pytest.mark.jvm


def put(server: PulsarServer, topic: str, value: bytes, **producer: Any) -> str:
    """Publishes a message with a producer of its own, and returns its id in the form that errors have."""
    made = server.client.create_producer(f"persistent://public/default/{topic}-partition-0", **producer)
    found = made.send(value)
    made.close()
    return f"{found.ledger_id()}:{found.entry_id()}"


@pytest.mark.parametrize("usual_first", [False, True])
def test_an_encrypted_message_is_refused(
    pulsar_server: PulsarServer, topic: str, tmp_path: Path, *, usual_first: bool
) -> None:
    import pulsar
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048)
    pem = serialization.Encoding.PEM
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    plain = serialization.NoEncryption()
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, plain))
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    pulsar_server.create_topic(topic, 1)
    if usual_first:
        pulsar_server.put(f"{topic}-partition-0", [b"usual"])
    keys = pulsar.CryptoKeyReader(str(public), str(private))
    name = put(pulsar_server, topic, b"secret", encryption_key="ours", crypto_key_reader=keys)
    with (
        SourceQuery(source_of(pulsar_server, topic)) as query,
        pytest.raises(RecordFormatError, match=rf"{name}:0 of .*{topic}-partition-0 is encrypted"),
    ):
        query.run(2)


@pytest.mark.parametrize("followed", [False, True])
def test_a_chunked_message_is_refused(pulsar_server: PulsarServer, topic: str, *, followed: bool) -> None:
    """The message has two entries; it is the last one of the topic, or another one follows."""
    pulsar_server.create_topic(topic, 1)
    name = put(pulsar_server, topic, bytes(6 << 20), chunking_enabled=True)
    if followed:
        pulsar_server.put(f"{topic}-partition-0", [b"usual"])
    with (
        SourceQuery(source_of(pulsar_server, topic)) as query,
        pytest.raises(RecordFormatError, match=rf"{name}:0 of .*{topic}-partition-0 is chunked"),
    ):
        query.run(2)


def test_times_and_text_of_other_clients_are_as_the_stand_ins_have_them(
    pulsar_server: PulsarServer, topic: str
) -> None:
    """pulsar-client returns times without a sign, and no text that is not UTF-8, as in ``test_columns.py``."""
    pulsar_server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    pulsar_server.put(partition, [b"late"], event_timestamp=2**64 - 1)
    ((ledger, entry, _),) = pulsar_server.put(partition, [b"bytes"], properties={"unit": b"\xff"})
    client = PulsarClient(PulsarConnectionOptions(pulsar_server.service_url))
    messages = client.read(f"persistent://public/default/{partition}", EARLIEST, 2)
    rows, _ = rows_of(messages[:1])
    assert rows.column("__eventTime").cast(pa.int64()).to_pylist() == [(2**63 - 1) // 1000 * 1000]
    with pytest.raises(
        RecordFormatError, match=rf"{ledger}:{entry}:0 of .*{partition} has properties with bytes"
    ):
        rows_of(messages)


def test_a_compacted_topic_is_read_as_it_was_written(pulsar_server: PulsarServer, topic: str) -> None:
    """Compaction keeps the last message of each key in a ledger of its own, which readers must ask for."""
    pulsar_server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    for i in range(12):
        pulsar_server.put(partition, [b"%d" % i], partition_key=f"key-{i % 3}")
    with SourceQuery(source_of(pulsar_server, topic, maxRecordsPerTrigger="5")) as query:
        rows = query.step()
        path = f"persistent/public/default/{partition}/compaction"
        pulsar_server.admin("PUT", path)
        wait_until(lambda: pulsar_server.admin("GET", path)["status"] == "SUCCESS", "the compaction")
        pulsar_server.unload(partition)
        pulsar_server.put(partition, [b"12"], partition_key="key-0")
        rows += query.run(8)
    assert [row["value"] for row in rows] == numbers(0, 13)
