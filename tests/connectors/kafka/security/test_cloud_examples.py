"""The options that the pages of the clouds show for Spark work as they are, or are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.connectors.kafka.sasl.msk_iam import MskIam
from flip27_stream.connectors.kafka.sasl.msk_token import MskToken
from flip27_stream.connectors.kafka.sasl.oauthbearer import OAuthBearer
from flip27_stream.connectors.kafka.sasl.sasl_credentials import PasswordCredentials
from flip27_stream.connectors.kafka.tokens.token_endpoint import TokenEndpoint
from flip27_stream.errors import OptionError

Options = Mapping[str, str]

EVENT_HUBS: Final = {
    "kafka.bootstrap.servers": "ns.servicebus.windows.net:9093",
    "subscribe": "hub",
    "kafka.security.protocol": "SASL_SSL",
}
CONNECTION_STRING: Final = (
    "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=a+b/c=;EntityPath=hub"
)
TENANT: Final = "https://login.microsoft.com/tenant/oauth2/v2.0/token"
CONFLUENT: Final = {
    "kafka.bootstrap.servers": "pkc-1.eu-west-1.aws.confluent.cloud:9092",
    "subscribe": "t",
    "kafka.security.protocol": "SASL_SSL",
}
MSK: Final = {
    "kafka.bootstrap.servers": "b-1.clicks.abc123.c2.kafka.eu-west-1.amazonaws.com:9098",
    "subscribe": "t",
    "kafka.security.protocol": "SASL_SSL",
}
IAM: Final = MSK | {
    "kafka.sasl.mechanism": "AWS_MSK_IAM",
    "kafka.sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}
GOOGLE: Final = {
    "kafka.bootstrap.servers": "bootstrap.c.us-central1.managedkafka.p.cloud.goog:9092",
    "subscribe": "t",
    "kafka.security.protocol": "SASL_SSL",
}
OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


def iam(login_module_options: str) -> Options:
    module = f"software.amazon.msk.auth.iam.IAMLoginModule required {login_module_options}"
    return IAM | {"kafka.sasl.jaas.config": f"{module.strip()};"}


def sasl(options: Options) -> object:
    return parse_kafka_options(dict(options)).connection.security.sasl


@pytest.mark.parametrize(
    ("options", "username", "password"),
    [
        (
            EVENT_HUBS
            | {
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": f"kafkashaded.{PLAIN} required "
                f'username="$ConnectionString" password="{CONNECTION_STRING}";',
                "kafka.request.timeout.ms": "60000",
                "kafka.session.timeout.ms": "30000",
                "maxOffsetsPerTrigger": "50000",
                "failOnDataLoss": "false",
                "startingOffsets": "latest",
            },
            "$ConnectionString",
            CONNECTION_STRING,
        ),
        (
            EVENT_HUBS
            | {
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": f'{PLAIN} required serviceName="kafka" '
                f'username="$ConnectionString" password="{CONNECTION_STRING}";',
                "kafka.batch.size": "5000",
                "kafka.group.id": "$Default",
            },
            "$ConnectionString",
            CONNECTION_STRING,
        ),
        (
            CONFLUENT
            | {
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": f"kafkashaded.{PLAIN} required username='KEY' password='s/e+c=';",
                "kafka.ssl.endpoint.identification.algorithm": "https",
                "kafka.client.dns.lookup": "use_all_dns_ips",
                "kafka.session.timeout.ms": "45000",
                "kafka.acks": "all",
                "kafka.client.id": "ccloud-spark-client",
                "startingOffsets": "earliest",
            },
            "KEY",
            "s/e+c=",
        ),
        (
            CONFLUENT
            | {
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": f"{PLAIN} required username='KEY' password='s/e+c=';",
                "kafka.client.dns.lookup": "use_all_dns_ips",
                "kafka.session.timeout.ms": "45000",
                "kafka.acks": "all",
                "kafka.client.id": "ccloud-java-client-5c5e",
                "kafka.schema.registry.url": "https://psrc-1.eu-west-1.aws.confluent.cloud",
                "kafka.basic.auth.credentials.source": "USER_INFO",
                "kafka.basic.auth.user.info": "REGISTRY-KEY:hush",
            },
            "KEY",
            "s/e+c=",
        ),
        (
            GOOGLE
            | {
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": f"{PLAIN} required "
                'username="sa@p.iam.gserviceaccount.com" password="ewogICJ0eXBlIjog==";',
            },
            "sa@p.iam.gserviceaccount.com",
            "ewogICJ0eXBlIjog==",
        ),
    ],
    ids=[
        "Event Hubs, pipelines",
        "Event Hubs, tutorial",
        "Confluent Cloud",
        "Confluent Cloud, of its console",
        "Google Cloud",
    ],
)
def test_examples_with_a_password_are_parsed(options: Options, username: str, password: str) -> None:
    assert sasl(options) == PasswordCredentials("PLAIN", username, password)


@pytest.mark.parametrize(
    ("options", "scope", "extensions"),
    [
        (
            EVENT_HUBS
            | {
                "kafka.sasl.mechanism": "OAUTHBEARER",
                "kafka.sasl.jaas.config": f"kafkashaded.{OAUTH}.OAuthBearerLoginModule required "
                'clientId="id" clientSecret="secret" scope="https://ns.servicebus.windows.net/.default" '
                'ssl.protocol="SSL";',
                "kafka.sasl.oauthbearer.token.endpoint.url": TENANT,
                "kafka.sasl.login.callback.handler.class": (
                    f"kafkashaded.{OAUTH}.secured.OAuthBearerLoginCallbackHandler"
                ),
            },
            "https://ns.servicebus.windows.net/.default",
            (),
        ),
        (
            CONFLUENT
            | {
                "kafka.sasl.mechanism": "OAUTHBEARER",
                "kafka.sasl.jaas.config": f"""{OAUTH}.OAuthBearerLoginModule required
                    clientId='id'
                    scope='s'
                    clientSecret='secret'
                    extension_logicalCluster='lkc-1'
                    extension_identityPoolId='pool-1';""",
                "kafka.sasl.oauthbearer.token.endpoint.url": TENANT,
                "kafka.sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
                "kafka.sasl.login.connect.timeout.ms": "15000",
                "kafka.sasl.oauthbearer.expected.audience": "kafka",
            },
            "s",
            (("identityPoolId", "pool-1"), ("logicalCluster", "lkc-1")),
        ),
    ],
    ids=["Event Hubs, service principal", "Confluent Cloud, identity pool"],
)
def test_examples_with_a_token_server_are_parsed(
    options: Options, scope: str, extensions: tuple[tuple[str, str], ...]
) -> None:
    found = sasl(options)
    assert found == OAuthBearer(TokenEndpoint(TENANT, "id", "secret", scope), extensions)


@pytest.mark.parametrize(
    ("login_module_options", "expected"),
    [
        ("", MskIam()),
        ('awsProfileName="clicks"', MskIam("clicks")),
        ('awsProfileName="clicks" awsDebugCreds=true', MskIam("clicks")),
        ('awsMaxRetries="7" awsMaxBackOffTimeMs="500"', MskIam()),
        (
            'awsRoleArn="arn:aws:iam::1:role/r" awsRoleSessionName="s" awsStsRegion="us-west-2"',
            MskIam(None, "arn:aws:iam::1:role/r", "s", None, "us-west-2"),
        ),
        (
            'awsRoleArn="arn" awsRoleAccessKeyId="AKID" awsRoleSecretAccessKey="hush" awsRoleSessionToken="hush-2"',
            MskIam(None, "arn", role_keys=("AKID", "hush", "hush-2")),
        ),
    ],
)
def test_examples_with_aws_msk_iam_are_parsed(login_module_options: str, expected: MskIam) -> None:
    found = sasl(iam(login_module_options))
    assert found == expected
    assert "hush" not in repr(found)


@pytest.mark.parametrize("prefix", ["", "shadedmskiam."])
def test_examples_with_tokens_of_amazon_msk_are_parsed(prefix: str) -> None:
    handler = f"{prefix}software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    found = sasl(
        MSK
        | {
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.jaas.config": f'{OAUTH}.OAuthBearerLoginModule required awsProfileName="clicks";',
            "kafka.sasl.login.callback.handler.class": handler,
            "kafka.sasl.client.callback.handler.class": handler,
        }
    )
    assert found == OAuthBearer(MskToken(MskIam("clicks"), "eu-west-1"))


_OAUTHBEARER: Final = {
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            GOOGLE
            | _OAUTHBEARER
            | {
                "kafka.sasl.login.callback.handler.class": "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"
            },
            r"GcpLoginCallbackHandler'.*a Python function in option 'kafka\.sasl\.oauthbearer\.token\.provider'",
        ),
        (
            EVENT_HUBS
            | _OAUTHBEARER
            | {"kafka.sasl.login.callback.handler.class": "CustomAuthenticateCallbackHandler"},
            r"CustomAuthenticateCallbackHandler'.*'kafka\.sasl\.oauthbearer\.token\.provider'",
        ),
        (
            CONFLUENT
            | _OAUTHBEARER
            | {"kafka.sasl.oauthbearer.jwt.retriever.class": f"{OAUTH}.JwtBearerJwtRetriever"},
            "JwtBearerJwtRetriever'.*ClientCredentialsJwtRetriever",
        ),
        (
            EVENT_HUBS
            | _OAUTHBEARER
            | {
                "kafka.sasl.oauthbearer.token.endpoint.url": TENANT,
                "kafka.sasl.jaas.config": f'{OAUTH}.OAuthBearerLoginModule required clientId="id" '
                'clientSecret="hush" ssl.truststore.location="/trust.jks";',
            },
            r"sets ssl\.truststore\.location.*must be trusted by the machine",
        ),
        (iam('awsRoleAccessKeyId="AKID" awsRoleSecretAccessKey="hush"'), "must set awsRoleArn"),
    ],
    ids=[
        "Google's handler",
        "a handler of one's own",
        "client assertions",
        "trust of tokens",
        "keys, no role",
    ],
)
def test_examples_that_cannot_work_are_refused(options: Options, said: str) -> None:
    with pytest.raises(OptionError, match=said) as error:
        sasl(options)
    assert "hush" not in str(error.value)
