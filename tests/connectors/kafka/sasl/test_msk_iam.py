"""AWS_MSK_IAM: its options are those that MSK documents, and its signatures those of AWS's own library."""

from __future__ import annotations

import base64
import datetime
import json
import sys
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
from kafka.net.sasl.msk import AwsMskIamClient

from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.connectors.kafka.sasl import msk_iam, msk_token
from flip27_stream.connectors.kafka.sasl.msk_iam import MskIam, region_of
from flip27_stream.connectors.kafka.sasl.msk_token import MskToken
from flip27_stream.errors import AuthenticationError, MissingExtraError, OptionError

MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
BROKER = "b-1.clicks.abc123.c2.kafka.eu-west-1.amazonaws.com"
SECRET = "hush-hush"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    msk_iam._source.cache_clear()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.delenv("AWS_PROFILE", raising=False)


def parse(**more: str) -> MskIam:
    given = {f"kafka.{name.replace('__', '.')}": value for name, value in more.items()}
    least = {
        "kafka.bootstrap.servers": f"{BROKER}:9098",
        "subscribe": "t",
        "kafka.security.protocol": "SASL_SSL",
    }
    found = parse_kafka_options({**least, "kafka.sasl.mechanism": "AWS_MSK_IAM", **given})
    assert isinstance(found.connection.security.sasl, MskIam)
    return found.connection.security.sasl


@pytest.mark.parametrize("prefix", ["", "shadedmskiam."])
def test_options_that_msk_documents_are_parsed(prefix: str) -> None:
    jaas = (
        f'{prefix}{MODULE} required awsRoleArn="arn" awsStsRegion="eu-west-1" awsAddDefaultProviders="false";'
    )
    found = parse(sasl__jaas__config=jaas, sasl__client__callback__handler__class=prefix + HANDLER)
    assert found == MskIam(None, "arn", "aws-msk-iam-auth", sts_region="eu-west-1")
    assert parse(sasl__jaas__config=f'{MODULE} required awsProfileName="p";') == MskIam("p")
    assert parse() == MskIam()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sasl__client__callback__handler__class": "com.example.H"}, "com.example.H"),
        (
            {"sasl__jaas__config": f'{MODULE} required awsRegion="x";'},
            "sets awsRegion.*awsProfileName.*awsDebugCreds",
        ),
        ({"sasl__jaas__config": f'{MODULE} required awsMskRegionProvider="x";'}, "Set AWS_REGION"),
        (
            {"sasl__jaas__config": f'{MODULE} required awsProfileName="p" awsRoleArn="r";'},
            "Leave out awsRoleArn.*source_profile",
        ),
        ({"security__protocol": "SASL_PLAINTEXT"}, "needs option 'kafka.security.protocol' SASL_SSL"),
    ],
)
def test_unsupported_options_are_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        parse(**given)


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (BROKER, "eu-west-1"),
        ("boot-x.c1.kafka-serverless.us-east-1.amazonaws.com", "us-east-1"),
        ("b-1.x.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("B-1.X.KAFKA.US-EAST-1.AMAZONAWS.COM", "us-east-1"),
    ],
)
def test_the_region_is_in_the_name_of_the_broker(
    host: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert region_of(host) == region


@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_without_a_region_in_the_name_that_of_aws_s_settings_is_taken(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's library takes AWS_REGION then, which boto3 does not read."""
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(AuthenticationError, match=r"'10\.0\.0\.1' has no AWS region .* set AWS_REGION"):
        parse().exchange("10.0.0.1")
    monkeypatch.setenv(name, "eu-west-2")
    message = json.loads(parse().exchange("10.0.0.1").auth_bytes())
    assert message["host"] == "10.0.0.1"
    assert "/eu-west-2/kafka-cluster/aws4_request" in message["x-amz-credential"]
    assert MskToken(MskIam(), None).fetch().value


@pytest.mark.parametrize("session_token", [None, "a/session+token="])
def test_the_signature_is_that_of_aws(session_token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library signs a request to the host of the region. A request for that host has the same signature here."""
    if session_token is not None:
        monkeypatch.setenv("AWS_SESSION_TOKEN", session_token)
    token, _ = MSKAuthTokenProvider.generate_auth_token("eu-west-1")
    url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    theirs = {name.lower(): values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    signer = AwsMskIamClient(urlsplit(url).hostname, "AKIDEXAMPLE", SECRET, "eu-west-1", session_token)
    signer.timestamp = theirs["x-amz-date"]
    signer.datestamp = theirs["x-amz-date"][:8]
    ours = json.loads(signer.first_message())
    for name in ("x-amz-signature", "x-amz-credential", "x-amz-expires", "x-amz-algorithm", "action"):
        assert ours[name] == theirs[name]
    assert ours.get("x-amz-security-token") == session_token


@pytest.mark.parametrize("region", ["eu-west-1", None])
def test_a_token_is_that_of_aws(region: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token has the query of the library's token, and the same signature and expiry if both are made at the same
    time.
    """
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    at = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: at.replace(tzinfo=None))
    monkeypatch.setattr(msk_token, "time", SimpleNamespace(time=at.timestamp))
    ours = MskToken(MskIam(), region).fetch()
    theirs, expires_ms = MSKAuthTokenProvider.generate_auth_token("eu-west-1")

    def query(token: str) -> dict[str, list[str]]:
        url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
        assert url.startswith("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&")
        return parse_qs(urlsplit(url).query)

    said = query(theirs)
    assert query(ours.value) == said | {"User-Agent": ["flip27-stream"]}
    assert said["X-Amz-Date"] == ["20261101T000000Z"]
    assert said["X-Amz-Expires"] == ["900"]
    assert ours.expires_at == at.timestamp() + 900 == expires_ms / 1000


def test_an_unknown_region_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.delenv("AWS_REGION", raising=False)
    with pytest.raises(AuthenticationError, match="Set AWS_REGION"):
        MskToken(MskIam(), None).fetch()


def test_the_broker_gets_the_signed_message() -> None:
    exchange = parse().exchange(BROKER)
    message = json.loads(exchange.auth_bytes())
    assert (message["host"], message["version"]) == (BROKER, "2020_10_22")
    assert "/eu-west-1/kafka-cluster/aws4_request" in message["x-amz-credential"]
    assert SECRET not in json.dumps(message)
    exchange.receive(b'{"version":"2020_10_22","request-id":"1"}')
    assert exchange.is_authenticated()


def test_a_role_is_assumed_and_its_credentials_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client assumes a role and keeps its credentials. A fake stands for STS, because the tests
    have no AWS account.
    """
    asked: list[dict[str, Any]] = []

    class Sts:
        def assume_role(self, **given: Any) -> dict[str, Any]:
            asked.append(given)
            expires = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
            keys = {
                "AccessKeyId": "ROLE",
                "SecretAccessKey": SECRET,
                "SessionToken": "tt",
                "Expiration": expires,
            }
            return {"Credentials": keys}

    monkeypatch.setattr("boto3.Session.client", lambda self, name, **given: Sts())
    jaas = f'{MODULE} required awsRoleArn="arn:role" awsRoleExternalId="x" awsStsRegion="eu-west-1";'
    for _ in range(2):
        message = json.loads(parse(sasl__jaas__config=jaas).exchange(BROKER).auth_bytes())
        assert message["x-amz-credential"].startswith("ROLE/")
        assert message["x-amz-security-token"] == "tt"
    assert asked == [{"RoleArn": "arn:role", "RoleSessionName": "aws-msk-iam-auth", "ExternalId": "x"}]


@pytest.mark.parametrize(
    ("fips", "host"),
    [("true", "sts-fips.us-east-2.amazonaws.com"), ("false", "sts.us-east-2.amazonaws.com")],
)
def test_the_role_is_assumed_at_an_endpoint_of_fips(
    fips: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def send(_: Any, request: Any) -> Any:
        asked.append(urlsplit(request.url).hostname or "")
        raise ConnectionAbortedError("no answer")

    monkeypatch.setattr("botocore.httpsession.URLLib3Session.send", send)
    settings = f'awsRoleArn="arn:aws:iam::123456789012:role/reader" awsStsRegion="us-east-2" awsShouldUseFips="{fips}"'
    with pytest.raises(ConnectionAbortedError):
        parse(sasl__jaas__config=f"{MODULE} required {settings};").keys()
    assert set(asked) == {host}


def test_missing_credentials_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with pytest.raises(AuthenticationError, match="No AWS credentials for Amazon MSK"):
        parse().exchange(BROKER)
    with pytest.raises(AuthenticationError, match="no-such-profile"):
        parse(sasl__jaas__config=f'{MODULE} required awsProfileName="no-such-profile";').exchange(BROKER)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(MissingExtraError, match=r"flip27-stream\[aws\]"):
        parse().exchange(BROKER)
