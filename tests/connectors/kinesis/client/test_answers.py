"""Answers that are refused or wrong: which calls are made again, what an error says, and what it does not show."""

from __future__ import annotations

import socket
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.connectors.kinesis.client.attempt import Failure, attempt, masked
from flip27_stream.connectors.kinesis.client.client import KinesisClient
from flip27_stream.connectors.kinesis.client.session import shared_client
from flip27_stream.connectors.kinesis.client.shard_limits import ShardLimits
from flip27_stream.connectors.kinesis.options.source_options import parse_kinesis_options
from flip27_stream.errors import AuthenticationError, MissingTopicError, UnreachableError
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.wall_clock import now_ms
from tests.connectors.kinesis.support.answers import answering, error
from tests.connectors.kinesis.support.kit import numbers_of
from tests.connectors.kinesis.support.memory_service import MemoryService, MemoryShard, numbered_records

OPERATIONS = ["DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords"]
TOKEN = "FwoGZXIvYXdzEEXAMPLETOKEN"


@pytest.fixture
def service() -> MemoryService:
    return MemoryService(a=MemoryShard(numbered_records(5, now_ms() - 60_000)))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "answer",
    [
        (200, {}),
        (429, {}),
        error("RequestLimitExceeded"),
        error("RequestTimeoutException"),
        error("ServiceUnavailableException"),
        error("TooManyRequestsException"),
    ],
)
def test_a_call_that_may_pass_is_made_again(service: MemoryService, operation: str, answer: Any) -> None:
    answers = [answer]
    service.fault = lambda asked_of, _: answers.pop() if asked_of == operation and answers else None
    with service.running(), SourceQuery(service.source()) as query:
        assert numbers_of(query.run(5)) == list(range(5))
    assert not answers


def test_an_answer_without_its_field_is_named(service: MemoryService) -> None:
    service.fault = lambda operation, _: (200, {"Shards": None}) if operation == "ListShards" else None
    with (
        service.running(requestTimeout="300 ms"),
        pytest.raises(
            UnreachableError, match=r"ListShards of clicks failed.*the answer has no field 'Shards'"
        ),
    ):
        service.client(requestTimeout="300 ms").shards("clicks")


def test_an_answer_of_sts_without_credentials_is_a_failure() -> None:
    answer = attempt("AssumeRole of reader", "AssumeRole", lambda: {"AssumedRoleUser": {}}, place="AWS STS")
    assert answer == Failure("the answer has no field 'Credentials'")


def test_a_listing_whose_token_expires_begins_again(service: MemoryService) -> None:
    tokens = [error("ExpiredNextTokenException")]

    def fault(operation: str, asked: dict[str, Any]) -> Any:
        if operation != "ListShards":
            return None
        if "NextToken" not in asked:
            return 200, {**service._listed(asked), "NextToken": "token"}
        return tokens.pop() if tokens else (200, {"Shards": []})

    service.fault = fault
    with service.running():
        assert [shard.shard_id for shard in service.client().shards("clicks")] == ["a"]
    assert not tokens


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("RequestExpired", "clock of this machine"),
        ("ExpiredToken", "new credentials"),
        ("AccessDeniedException", "permission"),
    ],
)
def test_a_denied_call_says_what_to_do(service: MemoryService, code: str, remedy: str) -> None:
    service.fault = lambda operation, asked: error(code)
    with (
        service.running(),
        pytest.raises(AuthenticationError, match=rf"{code}.*says it\. .*{remedy}") as failure,
    ):
        service.client().shards("clicks")
    assert type(failure.value) is AuthenticationError


@pytest.mark.parametrize("code", ["InvalidSignatureException", "ValidationException", "ThrottlingException"])
def test_no_error_shows_the_signed_request(service: MemoryService, code: str) -> None:
    """The service quotes the request that it would have signed, with the session token."""
    message = (
        f"The signature does not match. {TOKEN}\n\nThe Canonical String is\nx-amz-security-token:{TOKEN}\n"
    )
    service.fault = lambda operation, asked: (400, {"__type": code, "message": message})
    options = {"sessionToken": TOKEN, "requestTimeout": "300 ms"}
    with service.running(**options), SourceQuery(service.source(**options)) as query:
        with pytest.raises(Exception, match="The signature does not match") as failure:
            query.run(1)
        assert TOKEN not in "".join(traceback.format_exception(failure.value))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"x-amz-security-token:{TOKEN} x", "x-amz-security-token:[hidden] x"),
        (f"?X-Amz-Security-Token={TOKEN}&a=b", "?X-Amz-Security-Token=[hidden]&a=b"),
        ("'Credential=AKIA/x, Signature=abc12'", "'Credential=AKIA/x, Signature=[hidden]'"),
        (f"{{'x-amz-security-token': '{TOKEN}'}}", "{'x-amz-security-token': '[hidden]'}"),
        (f'"X-Amz-Security-Token": b"{TOKEN}", 1', '"X-Amz-Security-Token": b"[hidden]", 1'),
        ("http://user:pass@host/", "http://[hidden]@host/"),
        ("http://user:p@ss,w@host/a", "http://[hidden]@host/a"),
        (f"token {'aB3/' * 40} is invalid", "token [hidden] is invalid"),
        ("key1 is shown, key is not", "key1 is shown, [hidden] is not"),
    ],
)
def test_secret_parts_of_a_text_are_hidden(text: str, expected: str) -> None:
    assert masked(text, ["key"]) == expected


def test_the_region_of_the_configuration_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    options = {"streamName": "clicks", "awsAccessKey": "a", "awsSecretKey": "b"}
    connection = parse_kinesis_options(options).connection
    with (
        answering(connection, "ListShards", lambda _: error("ResourceNotFoundException")),
        pytest.raises(MissingTopicError, match="region 'eu-west-3'"),
    ):
        KinesisClient(connection, ShardLimits(0, 1e9)).shards("clicks")


def test_a_silent_sts_keeps_the_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = {
            "streamName": "clicks",
            "region": "us-east-1",
            "requestTimeout": "500 ms",
            "awsAccessKey": "a",
            "awsSecretKey": "b",
            "roleArn": "arn:aws:iam::123456789012:role/reader",
            "stsEndpoint": f"http://127.0.0.1:{silent.getsockname()[1]}",
        }
        client = KinesisClient(parse_kinesis_options(options).connection, ShardLimits(0, 1e9))
        began = time.monotonic()
        with pytest.raises(UnreachableError, match=r"AssumeRole of .*reader failed: Read timeout"):
            client.shards("clicks")
        assert time.monotonic() - began < 10


def test_credentials_are_looked_for_again_after_an_authentication_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    connection = parse_kinesis_options({"streamName": "later", "region": "us-east-1"}).connection
    shared_client.cache_clear()
    with pytest.raises(AuthenticationError, match="needs credentials"):
        KinesisClient(connection, ShardLimits(0, 1e9)).shards("later")
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id=KEY\naws_secret_access_key=x\n")
    assert shared_client(connection)._request_signer._credentials.access_key == "KEY"
