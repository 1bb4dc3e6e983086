"""SASL/AWS_MSK_IAM, the authentication at Amazon MSK with a request signed by AWS credentials (aws-msk-iam-auth)."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from flip27_stream.connectors.kafka.sasl.jaas import parse_jaas
from flip27_stream.connectors.kafka.sasl.java_classes import java_class
from flip27_stream.connectors.kafka.sasl.runtime_credentials import MISSING, credential_providers
from flip27_stream.connectors.kafka.sasl.sasl_credentials import SaslExchange
from flip27_stream.errors import AuthenticationError, OptionError
from flip27_stream.extras import check_installed
from flip27_stream.options.option import Option

_JAAS: Final = "kafka.sasl.jaas.config"
_MODULE: Final = "IAMLoginModule"
CLIENT_HANDLER_CLASS: Final = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_HOST: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\.?")
_KEYS: Final = ("awsRoleAccessKeyId", "awsRoleSecretAccessKey", "awsRoleSessionToken")
_NAMES: Final = (
    "awsProfileName",
    *_KEYS,
    "awsRoleArn",
    "awsRoleExternalId",
    "awsRoleSessionName",
    "awsShouldUseFips",
    "awsStsRegion",
)
_WITHOUT_EFFECT: Final = ("awsAddDefaultProviders", "awsDebugCreds", "awsMaxBackOffTimeMs", "awsMaxRetries")
"""The options of the login module without effect.

No other credentials than those named are ever tried, Java's log is not written, and boto3 has retries of its own.
"""
_REGION_PROVIDER: Final = "awsMskRegionProvider"
_TIMEOUT_S: Final = 5


CLIENT_HANDLER: Final = Option(
    "kafka.sasl.client.callback.handler.class",
    java_class(CLIENT_HANDLER_CLASS),
    None,
    "Accepted with mechanism AWS_MSK_IAM, also with `shadedmskiam.` before it; this source has its own "
    "implementation of the class. Other classes are refused.",
)


@dataclass(frozen=True)
class MskIam:
    """The settings with which boto3 finds AWS credentials.

    Attributes:
        profile: The profile in AWS's configuration files; ``None`` for boto3's default.
        role_arn: The role to assume with these credentials; ``None`` to assume no role.
        role_session_name: The name of the role's sessions.
        role_external_id: The external id that the trust policy of the role requires; ``None`` if it requires none.
        sts_region: The region of the STS endpoint; ``None`` for boto3's default.
        service_credential: The service credential of Databricks that has the credentials; ``None`` for those of boto3.
        role_keys: The access key, its secret and the session token with which the role is assumed; ``None`` for those
            that boto3 finds.
        sts_fips: Whether the endpoint of STS is one that is validated by FIPS 140.
    """

    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str = "aws-msk-iam-auth"
    role_external_id: str | None = None
    sts_region: str | None = None
    service_credential: str | None = None
    role_keys: tuple[str, str, str | None] | None = field(default=None, repr=False)
    sts_fips: bool = False

    mechanism: ClassVar[str] = "AWS_MSK_IAM"
    credentials: ClassVar[str] = "AWS credentials"
    option: ClassVar[str] = _JAAS

    def exchange(self, host: str) -> SaslExchange:
        """Returns a new authentication at a broker.

        Raises:
            AuthenticationError: No credentials or no region are found.
            OSError: AWS cannot be reached now.
        """
        check_installed("boto3", "aws", "SASL/AWS_MSK_IAM")
        from flip27_stream.connectors.kafka.kafka_python.sasl_mechanisms import msk_exchange

        found = self.keys()
        exchange: SaslExchange = msk_exchange(
            host, region_of(host, self.profile), found.access_key, found.secret_key, found.token
        )
        return exchange

    def keys(self) -> Any:
        """Returns the present access key, its secret and the session token, with the attributes that botocore gives.

        Raises:
            AuthenticationError: No credentials are found.
            OSError: AWS cannot be reached now.
        """
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        try:
            return _source(self).get_frozen_credentials()
        except (HTTPClientError, ConnectionError) as error:
            raise ConnectionAbortedError(f"AWS cannot be reached for credentials: {error}") from error
        except (BotoCoreError, ClientError) as error:
            raise AuthenticationError(
                f"No AWS credentials for Amazon MSK are found: {error} Check option '{_JAAS}' and AWS's settings on "
                "the driver and on the executors."
            ) from error

    def refused(self, exchange: SaslExchange) -> bool:
        """Returns ``False``: boto3 itself renews credentials before they expire."""
        return False


def region_of(host: str, profile: str | None = None) -> str:
    """Returns the AWS region in the name of a broker of Amazon MSK, else that of AWS's settings.

    Args:
        host: The name of the broker.
        profile: The profile in AWS's configuration files; ``None`` for boto3's default.

    Raises:
        AuthenticationError: Neither has a region.
    """
    found = region_in(host) or default_region(profile)
    if found is None:
        raise AuthenticationError(
            f"The name of broker '{host}' has no AWS region in it, which SASL/AWS_MSK_IAM needs, and AWS's settings "
            "set no region; the name of a broker of Amazon MSK ends with .kafka.<region>.amazonaws.com. Check option "
            "'kafka.bootstrap.servers', or set AWS_REGION on the driver and on the executors."
        )
    return found


def default_region(profile: str | None) -> str | None:
    """Returns the AWS region of ``AWS_REGION`` (a setting of Java's library), else boto3's; ``None`` without one."""
    import boto3

    found: str | None = os.environ.get("AWS_REGION") or boto3.Session(profile_name=profile).region_name
    return found


def region_in(host: str) -> str | None:
    """Returns the AWS region in the name of a broker of Amazon MSK; ``None`` if the name has no region."""
    match = _HOST.search(host.lower())
    return None if match is None else match[1]


def parse_msk_iam(options: Mapping[str, str], jaas: str | None, protocol: str) -> MskIam:
    """Returns the credentials of mechanism AWS_MSK_IAM.

    Args:
        options: The options of the query, by their names in lower case.
        jaas: The text of ``kafka.sasl.jaas.config``; ``None`` if it is not given.
        protocol: The security protocol.

    Raises:
        OptionError: A value is wrong or not supported.
    """
    if protocol != "SASL_SSL":
        raise OptionError(
            "Option 'kafka.sasl.mechanism' AWS_MSK_IAM needs option 'kafka.security.protocol' SASL_SSL; it is "
            f"{protocol}."
        )
    CLIENT_HANDLER.get(options)
    return aws_settings({} if jaas is None else parse_jaas(jaas, MskIam.mechanism, _MODULE))


def aws_settings(given: Mapping[str, str]) -> MskIam:
    """Returns the settings that a login module has for AWS credentials.

    Args:
        given: The options of the login module, by name.

    Raises:
        OptionError: An option is not supported, or one that belongs to it is missing.
    """
    if _REGION_PROVIDER in given:
        raise OptionError(
            f"Option '{_JAAS}' sets {_REGION_PROVIDER}, which names a Java class; this source has no Java client. Set "
            "AWS_REGION on the driver and on the executors."
        )
    for name in given:
        if name not in (*_NAMES, *_WITHOUT_EFFECT):
            allowed = ", ".join((*_NAMES, *_WITHOUT_EFFECT))
            raise OptionError(f"Option '{_JAAS}' sets {name}, which is not supported. Allowed: {allowed}.")
    if "awsProfileName" in given and "awsRoleArn" in given:
        raise OptionError(
            f"Option '{_JAAS}' sets awsProfileName and awsRoleArn; Java's library uses the first of them that has "
            "credentials. Leave out awsRoleArn to use the keys of the profile, as Java does. To assume the role with "
            "them, name a profile of AWS's configuration file that has role_arn and source_profile."
        )
    key, secret, token = map(given.get, _KEYS)
    keys = None if key is None or secret is None else (key, secret, token)
    if any(name in given for name in _KEYS) and (keys is None or "awsRoleArn" not in given):
        raise OptionError(
            f"Option '{_JAAS}' must set awsRoleArn, {_KEYS[0]} and {_KEYS[1]} together: the keys are those with which "
            "the role is assumed."
        )
    return MskIam(
        given.get("awsProfileName"),
        given.get("awsRoleArn"),
        given.get("awsRoleSessionName", MskIam.role_session_name),
        given.get("awsRoleExternalId"),
        given.get("awsStsRegion"),
        role_keys=keys,
        sts_fips=given.get("awsShouldUseFips") == "true",
    )


@functools.lru_cache(maxsize=16)
def _source(options: MskIam) -> Any:
    """Returns the credentials of this process. botocore renews those that expire."""
    import boto3
    from botocore.credentials import RefreshableCredentials
    from botocore.exceptions import NoCredentialsError

    key, secret, token = options.role_keys or (None, None, None)
    runtime = None if options.service_credential is None else _runtime_session(options.service_credential)
    session = boto3.Session(key, secret, token, profile_name=options.profile, botocore_session=runtime)
    if options.role_arn is None:
        found = session.get_credentials()
        if found is None:
            raise NoCredentialsError
        return found
    assume = functools.partial(_assumed, session, options)
    return RefreshableCredentials.create_from_metadata(
        metadata=assume(), refresh_using=assume, method="sts-assume-role"
    )


def _runtime_session(name: str) -> Any:
    """Returns the session of botocore that the runtime has for a service credential."""
    providers = credential_providers()
    if providers is None:
        raise AuthenticationError(f"The service credential '{name}' needs a {MISSING}")
    try:
        return providers(name)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - code of the runtime, whose text may have a secret in it
        raise AuthenticationError(
            f"The runtime has no service credential '{name}': {type(error).__name__}. Check the name, and the "
            "privilege ACCESS on it."
        ) from None


def _assumed(session: Any, options: MskIam) -> dict[str, str]:
    from botocore.config import Config

    config = Config(
        connect_timeout=_TIMEOUT_S,
        read_timeout=_TIMEOUT_S,
        retries={"max_attempts": 2},
        use_fips_endpoint=options.sts_fips,
    )
    sts = session.client("sts", region_name=options.sts_region, config=config)
    external = {} if options.role_external_id is None else {"ExternalId": options.role_external_id}
    keys = sts.assume_role(RoleArn=options.role_arn, RoleSessionName=options.role_session_name, **external)[
        "Credentials"
    ]
    return {
        "access_key": keys["AccessKeyId"],
        "secret_key": keys["SecretAccessKey"],
        "token": keys["SessionToken"],
        "expiry_time": keys["Expiration"].isoformat(),
    }
