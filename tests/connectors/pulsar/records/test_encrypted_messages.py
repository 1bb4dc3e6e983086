"""Encrypted messages of a real server are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flip27_stream.errors import RecordFormatError
from flip27_stream.testing import PulsarServer
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.pulsar.support.kit import source_of

pytestmark = pytest.mark.jvm


def put(server: PulsarServer, topic: str, value: bytes, **producer: Any) -> str:
    """Publishes a message with a producer of its own, and returns its id in the form that errors have."""
    made = server.client.create_producer(f"persistent://public/default/{topic}-partition-0", **producer)
    found = made.send(value)
    made.close()
    return f"{found.ledger_id()}:{found.entry_id()}"


@pytest.mark.parametrize("usual_first", [False, True])
def test_an_encrypted_message(
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
