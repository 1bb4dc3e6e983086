"""Credentials of boto3's chain, and of a role that a real STS server gives out, sign the calls to the service."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.connectors.kinesis.client import client
from flip27_stream.connectors.kinesis.client.session import shared_client
from flip27_stream.connectors.kinesis.options.source_options import parse_kinesis_options
from flip27_stream.errors import AuthenticationError
from flip27_stream.testing import KinesisServer, wait_until
from flip27_stream.testing.free_ports import free_port
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kinesis.support.answers import answering, error
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
    boto = shared_client(parse_kinesis_options(options).connection)
    given = boto._request_signer._credentials.get_frozen_credentials()
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


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that writes an access key to the profile from which boto3's chain takes it."""
    file = tmp_path / "credentials"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))

    def give(access_key: str) -> None:
        file.write_text(f"[default]\naws_access_key_id = {access_key}\naws_secret_access_key = secret\n")

    return give


@contextmanager
def refusing(options: dict[str, str]) -> Iterator[None]:
    """Refuses the credentials of the clients that exist now."""
    connection = parse_kinesis_options(options).connection
    with ExitStack() as stack:
        for operation in ("GetRecords", "GetShardIterator", "ListShards", "DescribeStreamSummary"):
            stack.enter_context(answering(connection, operation, lambda _: error("ExpiredTokenException")))
        yield


def test_keys_of_a_profile_that_were_replaced_are_read_again(
    kinesis: KinesisServer, stream: str, profile: Callable[[str], None]
) -> None:
    """The service refuses the keys with which a query began. The query goes on with those that its profile has now."""
    profile("OLD")
    options = options_without_keys(kinesis, stream)
    kinesis.create_stream(stream, 2)
    kinesis.put(stream, numbered(0, 10, 2))
    with SourceQuery(KinesisSource(options)) as query:
        assert sorted(data_of(query.run(10))) == EXPECTED
        profile("NEW")
        kinesis.put(stream, numbered(10, 10, 2))
        with refusing(options):
            assert sorted(data_of(query.run(10))) == [b"%d" % i for i in range(10, 20)]
        with signatures(options) as headers:
            kinesis.put(stream, numbered(20, 10, 2))
            assert len(query.run(10)) == 10
    assert headers
    assert all("Credential=NEW/" in header for header in headers)


def test_keys_that_are_refused_again_fail_the_query(
    kinesis: KinesisServer,
    stream: str,
    profile: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile("OLD")
    options, renewed = options_without_keys(kinesis, stream), list[str]()

    def renew(_: object, refused: Any) -> Any:
        renewed.append("again")
        return refused

    monkeypatch.setattr(client, "renewed_client", renew)
    kinesis.create_stream(stream)
    told = pytest.raises(AuthenticationError, match="The session token has expired")
    with refusing(options), SourceQuery(KinesisSource(options)) as query, told:
        query.run(1)
    assert renewed
