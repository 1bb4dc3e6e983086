"""Credentials of boto3's chain, and of a role that a real STS server gives out, sign the calls to the service."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest

from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.connectors.kinesis.client.session import shared_client
from flip27_stream.connectors.kinesis.options.source_options import parse_kinesis_options
from flip27_stream.testing import KinesisServer, wait_until
from flip27_stream.testing.free_ports import free_port
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kinesis.support.kit import QUICK, data_of, numbered

pytestmark = pytest.mark.node

EXPECTED = [b"%d" % i for i in range(10)]


@pytest.fixture(scope="module")
def sts() -> Iterator[str]:
    """The URL of an STS server."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _listens(port), "the STS server to listen", 60)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def signatures(options: dict[str, str]) -> Iterator[list[str]]:
    """Yields a list that gets the header Authorization of each call of GetRecords."""
    events, headers = shared_client(parse_kinesis_options(options).connection).meta.events, list[str]()

    def note(request: Any, **_: object) -> None:
        headers.append(request.headers["Authorization"].decode())

    events.register("before-send.kinesis.GetRecords", note)
    try:
        yield headers
    finally:
        events.unregister("before-send.kinesis.GetRecords", note)


def options_without_keys(kinesis: KinesisServer, stream: str) -> dict[str, str]:
    options = {**kinesis.options, **QUICK, "streamName": stream}
    return {name: value for name, value in options.items() if name not in ("awsAccessKey", "awsSecretKey")}


def check_reads(kinesis: KinesisServer, options: dict[str, str], access_key: str) -> None:
    """Checks that a query reads the stream, and signs its calls with an access key."""
    kinesis.create_stream(options["streamName"])
    kinesis.put(options["streamName"], numbered(0, 10, 1))
    with signatures(options) as headers, SourceQuery(KinesisSource(options)) as query:
        assert data_of(query.run(10)) == EXPECTED
    assert headers
    assert all(f"Credential={access_key}/" in header for header in headers)


def test_credentials_of_the_environment_are_used_by_default(
    kinesis: KinesisServer, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without options for credentials, those of the environment are used, for example."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROMTHECHAIN")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    check_reads(kinesis, options_without_keys(kinesis, stream), "FROMTHECHAIN")


def test_a_role_is_assumed_with_the_session_name_of_the_option(
    kinesis: KinesisServer, stream: str, sts: str
) -> None:
    """The STS server gives credentials of the role, for a session with the name of the option."""
    role = {
        "roleArn": "arn:aws:iam::123456789012:role/reader",
        "roleExternalId": "1234",
        "roleSessionName": "clicks-to-delta",
        "stsEndpoint": sts,
    }
    options = {**kinesis.options, **QUICK, "streamName": stream, **role}
    client = shared_client(parse_kinesis_options(options).connection)
    given = client._request_signer._credentials.get_frozen_credentials()
    caller = boto3.client(
        "sts",
        region_name="us-east-1",
        endpoint_url=sts,
        aws_access_key_id=given.access_key,
        aws_secret_access_key=given.secret_key,
        aws_session_token=given.token,
    )
    assert caller.get_caller_identity()["Arn"].endswith(":assumed-role/reader/clicks-to-delta")
    assert given.access_key != options["awsAccessKey"]
    check_reads(kinesis, options, given.access_key)
