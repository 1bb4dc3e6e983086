"""Option ``databricks.serviceCredential`` gives tokens and signatures. A fake stands for the
runtime of Databricks.
"""

from __future__ import annotations

import base64
import json
import pickle
import re
import sys
import time
from collections.abc import Callable
from datetime import datetime
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import botocore.session
import pytest

from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.connectors.kafka.sasl.msk_iam import MskIam
from flip27_stream.connectors.kafka.sasl.oauthbearer import OAuthBearer
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.errors import AuthenticationError, OptionError

CREDENTIAL = {
    "kafka.bootstrap.servers": "ns.servicebus.windows.net:9093",
    "subscribe": "t",
    "databricks.serviceCredential": "my-credential",
}
MODULES = ("databricks", "databricks.service_credentials", "databricks.sdk", "databricks.sdk.runtime")


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that sets the modules of the runtime. Modules that are not given cannot be imported."""

    def use(**found: Any) -> None:
        for name in MODULES:
            module = ModuleType(name) if name in ("databricks", "databricks.sdk") else None
            monkeypatch.setitem(sys.modules, name, module)
        for name, content in found.items():
            made = ModuleType(f"databricks.{name.replace('__', '.')}")
            vars(made).update(content)
            monkeypatch.setitem(sys.modules, made.__name__, made)

    use()
    return use


def parsed(**more: str) -> SecurityOptions:
    return parse_kafka_options(
        CREDENTIAL | {k.replace("_", "."): v for k, v in more.items()}
    ).connection.security


class AzureCredential:
    def __init__(self, name: str) -> None:
        self.name = name

    def get_token(self, *scopes: str) -> Any:
        return SimpleNamespace(
            token=f"{self.name}.{'.'.join(scopes)}".replace(":", "-"), expires_on=2_000_000_000
        )


@pytest.mark.parametrize(
    "found",
    [
        {"service_credentials": {"getServiceCredentialsProvider": AzureCredential}},
        {
            "sdk__runtime": {
                "dbutils": SimpleNamespace(
                    credentials=SimpleNamespace(getServiceCredentialsProvider=AzureCredential)
                )
            }
        },
    ],
    ids=["module", "dbutils"],
)
def test_a_credential_gives_tokens(modules: Callable[..., None], found: dict[str, Any]) -> None:
    modules(**found)
    security = pickle.loads(pickle.dumps(parsed()))
    assert security.protocol == "SASL_SSL"
    assert security.ssl is not None
    assert isinstance(security.sasl, OAuthBearer)
    assert hash(security.sasl) == hash(parsed().sasl)
    sent = security.sasl.exchange("broker").auth_bytes()
    assert b"auth=Bearer my-credential.https-//ns.servicebus.windows.net/.default\x01" in sent


def test_a_credential_of_aws_signs_requests_to_amazon_msk(modules: Callable[..., None]) -> None:
    """For a credential of AWS the runtime gives a session of botocore, with which requests are signed."""

    def session(name: str) -> Any:
        found = botocore.session.Session()
        found.set_credentials(f"AKID-{name}", "hush-hush", "token")
        return found

    modules(service_credentials={"getServiceCredentialsProvider": session})
    broker = "b-1.x.kafka.eu-west-1.amazonaws.com"
    security = pickle.loads(pickle.dumps(parsed(kafka_bootstrap_servers=f"{broker}:9098")))
    assert security.protocol == "SASL_SSL"
    assert isinstance(security.sasl, MskIam)
    message = json.loads(security.sasl.exchange(broker).auth_bytes())
    assert message["x-amz-credential"].startswith("AKID-my-credential/")
    assert "hush" not in repr(security)


def test_a_missing_credential_of_aws_is_named(modules: Callable[..., None]) -> None:
    def refuse(_: str) -> Any:
        raise ValueError("hush")

    modules(service_credentials={"getServiceCredentialsProvider": refuse})
    sasl = parsed(
        kafka_bootstrap_servers="b-1.x.kafka.eu-west-1.amazonaws.com:9098",
        databricks_serviceCredential="gone",
    ).sasl
    assert sasl is not None
    for said in ("no service credential 'gone': ValueError", "'gone' needs a runtime of Databricks"):
        with pytest.raises(AuthenticationError, match=said) as error:
            sasl.exchange("b-1.x.kafka.eu-west-1.amazonaws.com")
        assert "hush" not in str(error.value)
        modules()


class GoogleAuthError(Exception):
    retryable = False


class TransportError(GoogleAuthError):
    pass


class RetryableError(GoogleAuthError):
    retryable = True


class GoogleCredential:
    """The credentials of a service account, as google-auth has them."""

    service_account_email = "sa@p.iam.gserviceaccount.com"
    raises: ClassVar[type[Exception] | None] = None

    def __init__(self, name: str) -> None:
        self.name, self.scopes = name, [""]

    def refresh(self, request: str) -> None:
        if self.raises is not None:
            raise self.raises("hush")
        self.token = f"{request} for {self.name}, {self.scopes[0]}"
        self.expiry = datetime(2033, 5, 18, 3, 33, 20)  # noqa: DTZ001 - google-auth has it in UTC, without a zone


@pytest.fixture
def google_auth(modules: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns the function of ``modules``, with a stand-in for package google-auth."""

    def with_scopes(credentials: GoogleCredential, scopes: list[str]) -> GoogleCredential:
        credentials.scopes = scopes
        return credentials

    contents: dict[str, dict[str, Any]] = {
        "google": {},
        "google.auth": {},
        "google.auth.transport": {},
        "google.auth.credentials": {"with_scopes_if_required": with_scopes},
        "google.auth.exceptions": {"GoogleAuthError": GoogleAuthError, "TransportError": TransportError},
        "google.auth.transport.requests": {"Request": lambda: "access"},
    }
    for name, content in contents.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return modules


GOOGLE = "bootstrap.c.us.managedkafka.p.cloud.goog:9092"
GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


@pytest.mark.parametrize("more", [{}, {"databricks_serviceCredential_scope": GOOGLE_SCOPE}])
def test_a_credential_of_google_cloud_gives_tokens_of_its_own_form(
    google_auth: Callable[..., None], more: dict[str, str]
) -> None:
    """The example of Databricks' page for Google Cloud. The form of the token is that of Google's handler."""
    google_auth(service_credentials={"getServiceCredentialsProvider": GoogleCredential})
    sasl = pickle.loads(pickle.dumps(parsed(kafka_bootstrap_servers=GOOGLE, **more))).sasl
    assert isinstance(sasl, OAuthBearer)
    sent = sasl.exchange("broker").auth_bytes()
    found = re.fullmatch(rb"n,,\x01auth=Bearer ([^\x01]+)\x01\x01", sent)
    assert found is not None
    header, claims, token = (base64.urlsafe_b64decode(part + b"==") for part in found[1].split(b"."))
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    said = json.loads(claims)
    assert abs(said.pop("iat") - time.time()) < 60
    account = GoogleCredential.service_account_email
    assert said == {"iss": "Google", "sub": account, "scope": "kafka", "exp": 2_000_000_000}
    assert token.decode() == f"access for my-credential, {GOOGLE_SCOPE}"


def test_a_credential_of_google_cloud_without_a_token_is_an_error(
    google_auth: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    google_auth(service_credentials={"getServiceCredentialsProvider": GoogleCredential})
    sasl = parsed(kafka_bootstrap_servers=GOOGLE, databricks_serviceCredential="of-google").sasl
    assert sasl is not None
    for kind in (ValueError, GoogleAuthError):
        monkeypatch.setattr(GoogleCredential, "raises", kind)
        with pytest.raises(
            AuthenticationError, match=r"'of-google' .* must be a credential of Google Cloud"
        ) as refused:
            sasl.exchange("broker")
        assert "hush" not in str(refused.value)
    for kind in (TransportError, RetryableError):
        monkeypatch.setattr(GoogleCredential, "raises", kind)
        with pytest.raises(ConnectionError, match=f"Google's token service was not reached: {kind.__name__}"):
            sasl.exchange("broker")
    monkeypatch.setitem(sys.modules, "google.auth.credentials", None)
    with pytest.raises(AuthenticationError, match="needs package google-auth: install it"):
        sasl.exchange("broker")


def test_a_runtime_without_service_credentials_is_an_error(modules: Callable[..., None]) -> None:
    with pytest.raises(
        OptionError, match=r"'databricks\.serviceCredential' needs a runtime of Databricks .*token\.provider'"
    ):
        parsed()
    modules(sdk__runtime={"dbutils": SimpleNamespace()})
    with pytest.raises(OptionError, match="this process has neither"):
        parsed()


def test_options_that_contradict_a_service_credential_are_refused(modules: Callable[..., None]) -> None:
    modules(service_credentials={"getServiceCredentialsProvider": AzureCredential})
    assert parsed(kafka_security_protocol="SASL_SSL").sasl is not None
    with pytest.raises(OptionError, match=r"'kafka\.security\.protocol' must be SASL_SSL, or be left out"):
        parsed(kafka_security_protocol="PLAINTEXT")
    for name, value in {
        "kafka_sasl_mechanism": "PLAIN",
        "kafka_sasl_jaas_config": "hush-hush",
    }.items():
        with pytest.raises(
            OptionError, match=rf"'databricks\.serviceCredential' and '{name.replace('_', '.')}'"
        ) as error:
            parsed(**{name: value})
        assert "hush" not in str(error.value)
    with pytest.raises(OptionError, match=r"needs option 'databricks\.serviceCredential\.scope'"):
        parsed(kafka_bootstrap_servers="elsewhere.example.com:9092")
    scope = CREDENTIAL | {
        "kafka.bootstrap.servers": "there:1",
        "databricks.serviceCredential.scope": "api://x",
    }
    assert parse_kafka_options(scope).connection.security.sasl is not None
    del scope["databricks.serviceCredential"]
    with pytest.raises(OptionError, match=r"scope' needs option 'databricks\.serviceCredential'"):
        parse_kafka_options(scope)


def test_a_credential_without_a_token_is_an_error(modules: Callable[..., None]) -> None:
    """The error has no text of the runtime's error, which may hold a secret. An outage is tried again."""
    raised: list[Exception] = [PermissionError("hush"), ValueError("hush"), AttributeError("get_token")]

    def refuse(_: str) -> Any:
        raise raised.pop()

    modules(service_credentials={"getServiceCredentialsProvider": refuse})
    sasl = parsed(databricks_serviceCredential="refused").sasl
    assert sasl is not None
    for kind in ("AttributeError", "ValueError"):
        with pytest.raises(AuthenticationError, match=f"'refused' .* gives no token .*: {kind}") as error:
            sasl.exchange("broker")
        assert "hush" not in str(error.value)
    with pytest.raises(PermissionError):
        sasl.exchange("broker")
    modules()
    with pytest.raises(AuthenticationError, match="This process has no service credentials"):
        sasl.exchange("broker")
